"""Every kind of trace against the model: one class a kind, each comparing one case at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from smemsim.descriptors.layout import rules_in_force, window_reach
from smemsim.descriptors.operand import operand_addresses
from smemsim.descriptors.smem import SmemDescriptor
from smemsim.descriptors.tensor_map import TensorMap
from smemsim.errors import HardwareTrap, TensorMapError
from smemsim.machine.memory import GlobalMemory, SharedMemory
from smemsim.machine.mma import wgmma_bf16
from smemsim.machine.tma import Transfer, fill_bytes, tma_load, tma_store
from smemsim.spec.architectures import architecture
from smemsim.spec.evidence import RULES
from smemsim.spec.formats import element_format
from smemsim.spec.traps import ILLEGAL_ADDRESS
from smemsim.traces.format import Suite
from smemsim.traces.outcome import Case, Outcome, agree, differ

__all__ = ["KINDS", "Comparer"]

UNTOUCHED = -2  # `source` of a byte that the transfer left alone
FILLED = -256  # minus the byte: the transfer filled it in


class Comparer(Protocol):
    """Compares the cases of one suite; `columns` are the arrays it needs and their dimensions, the cases' own included."""

    columns: dict[str, int]

    def __init__(self, suite: Suite) -> None: ...
    def case(self, index: int) -> Case:
        """Compare one case."""


def _trapped(recorded: int, rule: str, call: Callable[[], Any]) -> tuple[Any, Outcome | None]:
    """Run the model; an outcome when hardware or model trapped, which must agree on the CUDA error."""
    try:
        result, error = call(), 0
    except HardwareTrap as e:
        result, error = None, e.cuda_error
    if error == recorded:
        return result, (agree(1) if error else None)
    said = {0: "runs"}
    first = (
        f"hardware {said.get(recorded, f'traps with CUDA error {recorded}')} | model {said.get(error, f'traps with CUDA error {error}')}"
    )
    return result, Outcome(1, 1, first, (), RULES[rule], "outcome")


class WgmmaOperand:
    """Which byte wgmma read for every element of an operand."""

    columns = {  # noqa: RUF012
        "descriptor": 1, "dtype": 1, "major": 1, "operand": 1, "sparse": 1, "rows": 1, "k": 1, "status": 1, "window_end": 1,
        "address_start": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Compare the addresses, or the trap."""
        a, machine = self.suite.arrays, architecture(self.suite.arch)
        word, rows, k = int(a["descriptor"][index]), int(a["rows"][index]), int(a["k"][index])
        dtype, major = str(a["dtype"][index]), str(a["major"][index])
        d = SmemDescriptor.decode(word, arch=machine.name)
        arguments: dict[str, Any] = {"arch": self.suite.arch, "dtype": dtype, "major": major, "rows": rows, "k": k}
        sparse = ", sparse" if a["sparse"][index] else ""
        title = f"descriptor {word:#018x}, operand {a['operand'][index]}, {dtype} {major}-major, {rows} x {k}{sparse}"
        end = int(a["window_end"][index])

        def model() -> np.ndarray:
            address = operand_addresses(word, **arguments)
            along, lines = (k, rows) if major == "K" else (rows, k)
            chunks = -(-along // element_format(dtype).elements_per_chunk())
            granted = -(-end // machine.shared_granularity) * machine.shared_granularity
            if window_reach(d, major, lines, chunks) > granted:
                raise HardwareTrap("past the window", cuda_error=ILLEGAL_ADDRESS)
            return np.where(address < end, address, 0)  # past the end no byte is coded, and zero is read

        address, outcome = _trapped(int(a["status"][index]), "operand.window", model)
        if outcome:
            return Case(title, outcome)
        hardware = self.suite.ragged("address", index).reshape(rows, k)
        # What lies below the first user byte belongs to the system: hardware reads it without a fault, its contents are not ours.

        def describe(at: tuple[int, ...]) -> str:
            return f"row {at[0]}, k {at[1]}: hardware {int(hardware[at]):#x} | model {int(address[at]):#x}"

        fmt = element_format(dtype)
        rules = rules_in_force(d, machine, major=major, k_bytes=k * fmt.bits // 8, bits=fmt.bits)
        return Case(title, differ(hardware, address, rules[0], "addresses", describe, max(1, 16 // max(1, hardware.shape[1] // 8))))


ENUMS = ("data_type", "interleave", "swizzle", "l2_promotion", "oob_fill")
MAP_COLUMNS = {
    "tensor_map": 2, "rank": 1, "global_address": 1, "global_dim": 2, "global_strides": 2, "box_dim": 2, "element_strides": 2,
    "data_type": 1, "interleave": 1, "swizzle": 1, "l2_promotion": 1, "oob_fill": 1,
}  # fmt: skip


def recorded_map(suite: Suite, index: int) -> tuple[TensorMap, Outcome | None]:
    """The tensor map of a case from its arguments; an outcome when the 128 bytes are not those of the driver."""
    a = suite.arrays
    rank = int(a["rank"][index])

    def some(name: str, n: int) -> tuple[int, ...]:
        return tuple(a[name][index][:n].tolist())

    raw = a["tensor_map"][index].tobytes()
    try:
        tm = TensorMap.tiled(
            global_address=int(a["global_address"][index]),
            global_dim=some("global_dim", rank),
            global_strides=some("global_strides", rank - 1),
            box_dim=some("box_dim", rank),
            element_strides=some("element_strides", rank),
            arch=suite.arch,
            **{name: int(a[name][index]) for name in ENUMS},
        )
    except TensorMapError as e:
        return TensorMap.from_bytes(raw), Outcome(1, 1, f"the driver accepts the map | model: {e}", (), RULES["tensor_map.bits"], "map")
    outcome = _compare_bytes(raw, tm)
    return tm, outcome if outcome.differing else None


class TensorMapEncode:
    """What the driver's encode calls accept, and the 128 bytes they write."""

    columns = {  # noqa: RUF012
        "result": 1, "tensor_map": 2, "rank": 1, "global_address": 1, "global_dim": 2, "global_strides": 2, "element_strides": 2,
        "data_type": 1, "interleave": 1, "swizzle": 1, "l2_promotion": 1, "oob_fill": 1,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.tiled = "box_dim" in suite.arrays

    def case(self, index: int) -> Case:
        """Compare the verdict, then the bytes, then what they decode to."""
        a = self.suite.arrays
        rank = int(a["rank"][index])
        arguments: dict[str, Any] = {name: int(a[name][index]) for name in (*ENUMS, "global_address")}
        lengths = {"global_dim": rank, "global_strides": max(rank - 1, 0), "element_strides": rank}
        if self.tiled:
            lengths["box_dim"] = rank
        else:
            lengths |= {"pixel_box_lower_corner": max(rank - 2, 0), "pixel_box_upper_corner": max(rank - 2, 0)}
            arguments |= {name: int(a[name][index]) for name in ("channels_per_pixel", "pixels_per_column")}
        arguments |= {name: tuple(a[name][index][:n].tolist()) for name, n in lengths.items()}
        make = TensorMap.tiled if self.tiled else TensorMap.im2col
        title = f"{make.__name__}({', '.join(f'{name}={value}' for name, value in arguments.items())})"
        result, raw = int(a["result"][index]), a["tensor_map"][index]
        try:
            tm, why = make(**arguments, arch=self.suite.arch), ""
        except TensorMapError as e:
            tm, why = None, str(e)
        verdict = RULES["tensor_map.verdict"]
        if (tm is None) != (result != 0):
            first = f"the driver {'refuses' if result else 'accepts'} | model {f'refuses: {why}' if tm is None else 'accepts'}"
            return Case(title, Outcome(1, 1, first, (), verdict, "verdict"))
        if tm is None:
            return Case(title, agree(1))
        return Case(title, _compare_bytes(raw.tobytes(), tm))


def _compare_bytes(raw: bytes, tm: TensorMap) -> Outcome:
    hardware, model, bits = np.frombuffer(raw, np.uint8), np.frombuffer(bytes(tm), np.uint8), RULES["tensor_map.bits"]
    outcome = differ(hardware, model, bits, "map bytes", lambda at: f"byte {at[0]}: driver {raw[at[0]]:#x} | model {model[at]:#x}", 1)
    if not outcome.differing and TensorMap.from_bytes(raw) != tm:
        return Outcome(128, 128, "the map decoded from the driver's bytes is another one", (), bits, "map bytes")
    return outcome


class TmaTransfer:
    """Loads and stores: the source of every byte, the transaction bytes, the traps."""

    columns = {  # noqa: RUF012
        **MAP_COLUMNS, "coordinates": 2, "smem_address": 1, "window_end": 1, "status": 1, "transaction_bytes": 1, "first": 1,
        "source_start": 1,
    }  # fmt: skip
    is_store = False

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Compare map, trap, count and bytes, in that order; the first that differs is the outcome."""
        a = self.suite.arrays
        tm, wrong_map = recorded_map(self.suite, index)
        at = tuple(a["coordinates"][index][: tm.rank].tolist())
        address, end = int(a["smem_address"][index]), int(a["window_end"][index])
        what = "store" if self.is_store else "load"
        title = f"{what} {tm!r}, coordinates {at}, smem_address {address:#x}"
        if wrong_map:
            return Case(title, wrong_map)
        call = tma_store if self.is_store else tma_load
        run = _trapped(int(a["status"][index]), "tma.traps", lambda: call(tm, at, smem_address=address, shared_end=end))
        transfer, outcome = run
        if outcome:
            return Case(title, outcome)
        credited = int(a["transaction_bytes"][index])
        if not self.is_store and credited != transfer.transaction_bytes:
            first = f"hardware {credited} bytes | model {transfer.transaction_bytes} bytes"
            return Case(title, Outcome(1, 1, first, (), RULES["tma.transaction_bytes"], "transaction bytes"))
        return Case(title, self._bytes(index, transfer))

    def _bytes(self, index: int, transfer: Transfer) -> Outcome:
        hardware = self.suite.ragged("source", index)
        first = int(self.suite.arrays["first"][index])
        begin, model = self._image(transfer)
        low = min(first, begin) if len(model) and len(hardware) else (begin if len(model) else first)
        size = max(first + len(hardware), begin + len(model)) - low if len(model) or len(hardware) else 0
        both = np.full((2, size), UNTOUCHED, np.int64)
        both[0, first - low : first - low + len(hardware)] = hardware
        both[1, begin - low : begin - low + len(model)] = model
        # Bytes below the first user byte, and those a window is rounded up by, are neither coded for a store nor looked at after a load.
        reserved, end = architecture(self.suite.arch).shared_begin, int(self.suite.arrays["window_end"][index])
        place = both[1] if self.is_store else np.arange(low, low + size)
        hidden = place >= end
        if int(self.suite.arrays["smem_address"][index]) < reserved:
            hidden |= (place >= 0) & (place < reserved)
        both = both[:, ~hidden]
        where = (low + np.arange(size))[~hidden]
        rule = "tma.store_clip" if self.is_store else "tma.placement"
        base = transfer.tensor_map.global_address

        def say(value: int) -> str:
            if value == UNTOUCHED:
                return "untouched"
            if value < 0:
                return f"fill {FILLED - value:#04x}"
            return f"shared {value:#x}" if self.is_store else f"global + {value:#x}"

        def describe(at: tuple[int, ...]) -> str:
            address = int(where[at])
            place = f"global {base + address:#x}" if self.is_store else f"shared {address:#x}"
            return f"{place}: hardware = {say(int(both[0][at]))} | model = {say(int(both[1][at]))}"

        if not both.size:
            return agree(1)  # both say that nothing is written
        return differ(both[0], both[1], RULES[rule], "bytes", describe, 16)

    def _image(self, transfer: Transfer) -> tuple[int, np.ndarray]:
        """(first address, sources) as the trace writes them: for a load over shared, for a store over global addresses."""
        base = transfer.tensor_map.global_address
        if self.is_store:
            where, source = transfer.global_address - base, transfer.shared_address.astype(np.int64)
        else:
            where = transfer.shared_address.astype(np.int64)
            fill = np.resize(fill_bytes(transfer.tensor_map), len(where)).astype(np.int64)
            source = np.where(transfer.global_address == -1, FILLED - fill, transfer.global_address - base)
        if not len(where):
            return 0, np.zeros(0, np.int64)
        begin = int(where.min())
        image = np.full(int(where.max()) - begin + 1, UNTOUCHED, np.int64)
        image[where - begin] = source
        return begin, image


class TmaStore(TmaTransfer):
    """Stores."""

    is_store = True


class TmaWgmma:
    """bf16 tiles that TMA wrote and wgmma read: the tensor element each lane received."""

    columns = {  # noqa: RUF012
        **MAP_COLUMNS, "loads": 1, "load_address": 2, "load_coordinates": 3, "descriptor": 1, "major": 1, "element": 3,
    }  # fmt: skip

    def __init__(self, suite: Suite) -> None:
        self.suite = suite

    def case(self, index: int) -> Case:
        """Run the loads into a memory with owners, read the operand, and compare what its elements are."""
        a = self.suite.arrays
        tm, wrong_map = recorded_map(self.suite, index)
        word, major = int(a["descriptor"][index]), str(a["major"][index])
        title = f"descriptor {word:#018x} {major}-major over {int(a['loads'][index])} loads of {tm!r}"
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


class ReferenceGemm:
    """The reference kernel: shared memory before the first MMA, then D from the operands its descriptors read."""

    columns = {  # noqa: RUF012
        "data": 1, "major_a": 1, "major_b": 1, "map_a": 2, "map_b": 2, "boxes_a": 3, "boxes_b": 3, "descriptors": 3, "image": 2, "d": 3,
        "stage_address": 1,
    }  # fmt: skip
    tile, stage = 64, 16384  # rows and K of a stage's operands; bytes of a stage, A first

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.stage_address = int(suite.arrays["stage_address"][0]) if len(suite) else 0

    def case(self, index: int) -> Case:
        """Load every tile with the recorded maps, compare the first image, multiply what the descriptors read, compare D bit for bit."""
        a = self.suite.arrays
        data, majors = str(a["data"][index]), (str(a["major_a"][index]), str(a["major_b"][index]))
        maps = [TensorMap.from_bytes(a[f"map_{side}"][index].tobytes()) for side in "ab"]
        title = f"{data}, A {majors[0]}-major {maps[0].swizzle.name}, B {majors[1]}-major {maps[1].swizzle.name}"
        for tm in maps:
            if tm.unknown_bits or tm.broken_rules:
                first = f"the map has {', '.join((*tm.unknown_fields, *tm.broken_rules))} | model: no encoder writes that"
                return Case(title, Outcome(1, 1, first, (), RULES["tensor_map.bits"], "map bytes"))
        world = GlobalMemory()
        for side, tm, major in zip("ab", maps, majors, strict=True):
            matrix = a[f"{side}_{data}"]
            world.place(matrix if major == "K" else matrix.T, tm.global_address)
        rows, k_extent = a[f"a_{data}"].shape
        d = np.zeros((rows, rows), np.uint32)
        for m in range(0, rows, self.tile):
            for n in range(0, rows, self.tile):
                shared = SharedMemory(self.suite.arch)
                for tile in range(k_extent // self.tile):
                    self._load(index, shared, world, maps, majors, (m, n), tile)
                    if (m, n, tile) == (0, 0, 0):
                        outcome = self._compare_image(index, shared)
                        if outcome.differing:
                            return Case(title, outcome)
                    corner = d[m : m + self.tile, n : n + self.tile]
                    corner[:] = self._multiply(index, shared, majors, tile, corner)
        hardware = a["d"][index]

        def describe(at: tuple[int, ...]) -> str:
            values = hardware[at].view(np.float32), d[at].view(np.float32)
            return f"D[{at[0]}, {at[1]}]: hardware {hardware[at]:#010x} = {values[0]} | model {d[at]:#010x} = {values[1]}"

        result = differ(hardware, d, RULES["arithmetic.wgmma_bf16_f32"], "elements of D", describe, 8)
        return Case(title, result if result.differing else agree(self.stage + hardware.size))

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

    def _multiply(self, index: int, shared: SharedMemory, majors: Any, tile: int, d: np.ndarray) -> np.ndarray:
        for step in range(4):
            words = self.suite.arrays["descriptors"][index, 4 * tile + step]
            a, b = (
                shared.read_operand(int(word), arch=self.suite.arch, dtype="bf16", major=major, rows=self.tile, k=16)
                for word, major in zip(words, majors, strict=True)
            )
            d = wgmma_bf16(a.bits, b.bits, d)
        return d


KINDS: dict[str, type[Comparer]] = {
    "tensor_map_encode": TensorMapEncode,
    "wgmma_operand": WgmmaOperand,
    "tma_load": TmaTransfer,
    "tma_store": TmaStore,
    "tma_wgmma": TmaWgmma,
    "reference_gemm": ReferenceGemm,
}
