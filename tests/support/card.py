"""A stand-in for a Blackwell card: the kit's kernels, run by the model. It shows that kit, traces and comparisons fit
together, and nothing of silicon.

It has memory at addresses, launches the kit's kernels by their names and takes their arguments apart as the CUDA
sources do. So everything of the kit runs but the CUDA code. Its manifests say what it is. Where the model has no
answer, it notes the case in `unknown`.
"""

import contextlib
import json
import struct
import types

import numpy as np

from smemsim import (
    AccumulatorLayout,
    ClusterAddress,
    GlobalMemory,
    HardwareTrap,
    InputError,
    ScaleLayout,
    SharedMemory,
    TensorMap,
    TensorMapError,
    TensorMemory,
    TmemAccess,
    TmemAddress,
    Unmodelled,
    multicast,
    tcgen05_cp,
    tcgen05_mma,
    tcgen05_shift,
)
from smemsim.capture import bench as bench_module
from smemsim.capture import device as device_module
from smemsim.capture import transfer_suites, value_suites, wide_suite
from smemsim.capture.blackwell import access, commits, contents, dots, gemm, machine, suites, transfers
from smemsim.core.arithmetic.multiply import Factors, multiply
from smemsim.core.machine import SPLIT, commit_arrivals, stored_k
from smemsim.core.machine.tcgen05 import instruction, scale_address, scale_id_in_force
from smemsim.core.spec.tcgen05 import scale_modes
from smemsim.core.spec.tensor_memory import METADATA

ARCH = "sm_100a"
DEVICE = {"gpu": "stand-in: the model itself, not silicon", "compute_capability": "10.0"}
PATIENT = (suites, access, commits, dots, gemm, transfers, transfer_suites, value_suites)  # modules that have cases run
WINDOW = contents.WINDOW_END - contents.WINDOW_BEGIN
STEP, HEAD = struct.Struct("<4I2Q4I8IQ"), struct.Struct("<6Q4I")
COUNTED = 0b011111  # passes of a load that complete
ILLEGAL, FAILED = 715, 719


class Buffer:
    """Device memory that lives as long as the object."""

    def __init__(self, card, size):
        self.card, self.size = card, size
        self.address = card.take(size)

    def __del__(self):
        self.card.memory.pop(self.address, None)

    def write(self, data):
        raw = np.ascontiguousarray(data).view(np.uint8).ravel()
        self.card.memory[self.address][: len(raw)] = raw

    def fill(self, byte):
        self.card.memory[self.address][:] = byte

    def read(self, dtype=np.uint8):
        return self.card.memory[self.address][: self.size].copy().view(dtype)


class Card:
    """Device and bench in one; `unknown` has the numbers of the cases that the model could not answer, of the suite
    that ran last.

    Of scale factors that lie in several places it reads number `copy`.
    """

    def __init__(self, copy=0):
        self.memory, self.next, self.unknown, self.wide, self.copy = {}, 1 << 32, [], {}, copy
        self.device = types.SimpleNamespace(describe=lambda: DEVICE, array=self.array, launch=self.launch)
        at = types.SimpleNamespace
        self.api = at(Buffer=lambda size: Buffer(self, size), At=lambda address: at(address=address), copy_to=self.copy_to, encode=self.encode, CudaError=device_module.CudaError)  # fmt: skip

    # ---- memory

    def take(self, size):
        address = self.next
        self.next += -(-max(size, 16) // 256) * 256 + 256
        self.memory[address] = np.zeros(max(size, 16), np.uint8)
        return address

    def array(self, data):
        buffer = Buffer(self, data.nbytes)
        buffer.write(data)
        return buffer

    def find(self, address):
        """(address of the buffer, its bytes)."""
        return next((base, raw) for base, raw in self.memory.items() if base <= address < base + len(raw))

    def at(self, address, size):
        base, raw = self.find(address)
        return raw[address - base : address - base + size]

    def copy_to(self, address, data):
        self.at(address, len(data))[:] = np.frombuffer(data, np.uint8)

    def world(self, *maps):
        """Global memory that holds the buffers these maps name."""
        world = GlobalMemory()
        for base, raw in dict(self.find(tm.global_address) for tm in maps).items():
            world.place(raw, base)
        return world

    # ---- the driver

    def encode(self, arguments, address):
        a = {name: value for name, value in arguments.items() if name in ENCODED}
        call = TensorMap.tiled if "box_dim" in a else TensorMap.im2col if "pixel_box_lower_corner" in a else TensorMap.im2col_wide
        if call != TensorMap.im2col_wide:
            a.pop("mode", None)
        try:
            tm = call(global_address=address, arch=ARCH, **a)
        except TensorMapError as e:
            raise device_module.CudaError(1, str(e)) from None
        if call != TensorMap.im2col_wide:
            return bytes(tm)
        # what the driver writes there is in no document
        raw = f"a wide map, number {len(self.wide)}".encode().ljust(128)
        self.wide[raw] = tm
        return raw

    def map_at(self, address):
        raw = self.at(address, 128).tobytes()
        return self.wide.get(raw) or TensorMap.from_bytes(raw)

    def verdict(self, arguments):
        try:
            return 0, self.encode(arguments, arguments["global_address"])
        except device_module.CudaError as e:
            return e.code, bytes(128)

    # ---- processes

    def in_processes(self, what, chosen):
        self.unknown, answers = [], []
        for number, case in enumerate(chosen):
            try:
                answer = {"status": 0, **bench_module.RUNNERS[what](self, json.loads(json.dumps(case)))}
            except device_module.CudaError as e:
                answer = {"status": e.code}
            except Unmodelled:
                self.unknown.append(number)
                answer = {"status": FAILED}
            answers.append(json.loads(json.dumps(answer)))
        return answers

    @contextlib.contextmanager
    def plugged_in(self, monkeypatch):
        """While this lasts the kit finds this card."""
        with monkeypatch.context() as patch:
            for module in PATIENT:
                patch.setattr(module, "in_processes", self.in_processes)
            patch.setattr(bench_module.settings, "arch", ARCH)
            patch.setattr(wide_suite, "verdict", self.verdict)
            yield self

    def write(self, out, suite, kind, title, seed, cases, arrays, delta=()):
        """`Bench.write`, which the suites of Hopper call."""
        bench_module.write(self, out, suite, kind, title, seed, cases, arrays, delta)

    # ---- kernels

    def function(self, module, name):
        return name

    def launch(self, name, grid, shared_bytes, *arguments, threads=128):
        kernel = next(kernel for prefix, kernel in KERNELS.items() if name.startswith(prefix))
        try:
            kernel(self, name, *(a.address if hasattr(a, "address") else a for a in arguments))
        except HardwareTrap as e:
            raise device_module.CudaError(e.cuda_error, name) from e
        except InputError as e:  # no such instruction: which error that is, the model does not say
            raise device_module.CudaError(ILLEGAL, f"{name}: {e}") from e


ENCODED = (
    "data_type", "global_dim", "global_strides", "box_dim", "element_strides", "interleave", "swizzle", "l2_promotion", "oob_fill", "mode",
    "pixel_box_lower_corner", "pixel_box_upper_corner", "pixel_box_lower_corner_width", "pixel_box_upper_corner_width", "channels_per_pixel",
    "pixels_per_column",
)  # fmt: skip

# ---- what the model leaves open, and this card decides ------------------------------------------------------------------------------


def one_value(words, bits):
    """The only value that fields of so many bits have in these words."""
    values = {int(word) >> shift & (1 << bits) - 1 for word in np.unique(words) for shift in range(0, 32, bits)}
    return values.pop() if len(values) == 1 else None


def by_hand(i, d, a, b, shared, tensor, given):
    """The instruction where the model does not know the place of metadata or factors, and they are the same wherever
    they may lie; or None.
    """
    group, at = len(tensor), TmemAddress.decode(d)
    if given["enable_input_d"] or given.keys() & {"zero_column_mask", "disable_output_lane", "scale_input_d"}:
        return None
    options = {"a_type": i.a_type, "b_type": i.b_type, "d_type": i.d_type, "negate_a": i.negate_a, "negate_b": i.negate_b}
    if i.sparsity:
        column = given["metadata"].column
        nibble = one_value(np.stack([memory.cells[:, column : column + 2] for memory in tensor]), 4)
        if nibble is None:
            return None
        stored, chunk = np.arange(i.k // 2), METADATA[i.kind].chunk
        options["index"] = np.broadcast_to(stored_k(stored, np.full(len(stored), nibble), chunk), (i.m, len(stored)))
    if i.row.block_scaled:
        factors = [factors_of(i, operand, tensor, given) for operand in "AB"]
        if any(factor is None for factor in factors):
            return None
        options["factors"] = Factors(*factors, str(i.scale_type), i.k // factors[0].shape[1])
    operands = [
        np.concatenate([m.read_operand(word, dtype=t, major=major, rows=rows // group, k=k, packing=i.row.packing).bits for m in shared])
        for word, t, major, rows, k in ((a, i.a_type, i.a_major, i.m, i.k // (1 + i.sparsity)), (b, i.b_type, i.b_major, i.n, i.k))
    ]
    product, _ = multiply(*operands, np.zeros((i.m, i.n), np.uint32), kind=i.kind, **options)
    layout = AccumulatorLayout(i.m, i.n, group, ws=given["ws"], sparse=i.sparsity, lane=at.lane, column=at.column)
    cta, lane, column = layout.location(np.arange(i.m)[:, None], np.arange(i.n))
    for number, memory in enumerate(tensor):
        memory.cells[lane[cta == number], column[cta == number]] = product[cta == number]
    return product


def scale_layout(i, operand, ctas, given):
    """(layout or None where the model does not know it, address)."""
    name, of_descriptor = ("scale_a", i.a_sf_id) if operand == "A" else ("scale_b", i.b_sf_id)
    at = TmemAddress(0, scale_address(name, given[name])[1])
    scale_id = scale_id_in_force(of_descriptor, name, given[name], scale_modes(i.row, wide_k=False, asked=given["scale_vec"]))
    about = {"cta_group": ctas, "scale_id": scale_id, "column": at.column, "k": i.k}
    try:
        return ScaleLayout(operand, m=i.m, n=i.n, kind=i.kind, scale_vec=given["scale_vec"], **about), at
    except (InputError, Unmodelled):
        return None, at


def factors_of(i, operand, tensor, given):
    """(rows, factors): the first copies, or those that are the same everywhere; or None."""
    layout, at = scale_layout(i, operand, len(tensor), given)
    rows = i.m if operand == "A" else i.n
    if layout is not None:
        cells = np.stack([memory.cells.view(np.uint8).reshape(128, 512, 4) for memory in tensor])
        return cells[layout.location(np.arange(rows)[:, None], np.arange(layout.scales))]
    value = one_value(np.stack([memory.cells[:, at.column : at.column + 32] for memory in tensor]), 8)
    [mode] = scale_modes(i.row, wide_k=False, asked=given["scale_vec"])
    return None if value is None else np.full((rows, mode.scales), value, np.uint8)


def make_copies(i, tensor, given, which, owner=0):
    """Factors lie in several places, and which of them counts is not known; this card takes one of them: it is copied
    to the others.

    Those of B it takes from the tensor memory of CTA `owner`.
    """
    for operand in "AB":
        layout, _ = scale_layout(i, operand, len(tensor), given)
        if layout is None:
            continue
        if operand == "B" and len(tensor) == 2:
            in_cta = layout.copies // 2
            which = owner * in_cta + which % in_cta
        row, index = np.arange(i.m if operand == "A" else i.n)[:, None], np.arange(layout.scales)
        held = np.stack([memory.cells.view(np.uint8).reshape(128, 512, 4) for memory in tensor])[layout.location(row, index, which)]
        for copy in range(layout.copies):
            cta, lane, column, byte = layout.location(row, index, copy)
            for number, memory in enumerate(tensor):
                mine = cta == number
                memory.cells.view(np.uint8).reshape(128, 512, 4)[lane[mine], column[mine], byte[mine]] = held[mine]


# ---- the kernels ---------------------------------------------------------------------------------------------------------------------


def one_or_pair(found):
    return tuple(found) if len(found) > 1 else found[0]


def filled(words, group=1):
    memory = TensorMemory(ARCH)
    memory.alloc(contents.COLUMNS, cta_group=group)
    memory.cells[:] = words.reshape(contents.LANES, contents.COLUMNS)
    return memory


def tensor_words(card, address):
    return card.at(address, contents.LANES * contents.COLUMNS * 4).view(np.uint32)


def run_machine(card, name, job, results):
    """machine.cu."""
    group = int(name[-1])
    raw = card.at(job, 4096).tobytes()
    *where, out, _, first, count, steps, _ = HEAD.unpack_from(raw)
    shared = []
    for address in where[:group]:
        memory = SharedMemory(ARCH, size=WINDOW)
        memory.write(memory.begin, card.at(address, contents.CONTROL - contents.WINDOW_BEGIN))
        shared.append(memory)
    tensor = [filled(tensor_words(card, address), group) for address in where[2 : 2 + group]]
    for i in range(steps):
        issue(STEP.unpack_from(raw, HEAD.size + i * STEP.size), shared, tensor, group, card.copy)
    words = np.stack([memory.cells[:, first : first + count] for memory in tensor])
    card.at(out, words.nbytes)[:] = words.ravel().view(np.uint8)
    answers = np.array([(1, contents.WINDOW_BEGIN | rank << 24, 0, 1000) for rank in range(group)], np.uint32)
    card.at(results, answers.nbytes)[:] = answers.ravel().view(np.uint8)


def issue(step, shared, tensor, group, copy):
    op, _, d, idesc, a, b, meta, scale_a, scale_b, enable, *mask, zero = step
    name = machine.OPS[op]
    about = {"shared": one_or_pair(shared), "cta_group": group}
    if name == "shift":
        return tcgen05_shift(one_or_pair(tensor), d, cta_group=group)
    if name.startswith("cp."):
        form, _, compressed = name.removeprefix("cp.").partition(".b8x16.")
        shape, _, cast = form.partition(".")
        return tcgen05_cp(one_or_pair(tensor), d, a, shape=shape, multicast=cast, src_fmt=compressed, **about)
    kind, *parts = name.split(".")
    given = {"ws": "ws" in parts, "enable_input_d": bool(enable)}
    for part in parts:
        if part in ("fill", "use", "lastuse", "ashift"):
            raise Unmodelled(name)
        if part.startswith("block"):
            given |= {"scale_a": scale_a, "scale_b": scale_b, "scale_vec": part}
        given |= {"sp": {"metadata": TmemAddress.decode(meta)}, "mask": {"disable_output_lane": tuple(mask[: 4 * group])},
                  "zero": {"zero_column_mask": zero}}.get(part, {})  # fmt: skip
        if part.startswith("scale"):
            given["scale_input_d"] = int(part.removeprefix("scale"))
    given["idesc"] = idesc
    i, a = instruction(idesc, kind), TmemAddress.decode(a) if "ts" in parts else a
    if (
        i.row.block_scaled
        and group == 2
        and not np.array_equal(*(memory.cells[:, scale_address("scale_b", given["scale_b"])[1] :] for memory in tensor))
    ):
        # Each CTA scales the columns of its D by the factors that it has itself.
        trials = []
        for cta in (0, 1):
            trials.append([filled(memory.cells.copy(), group) for memory in tensor])
            make_copies(i, trials[cta], given, copy, cta)
            run_mma(i, d, a, b, parts, shared, trials[cta], given)
        layout = AccumulatorLayout(i.m, i.n, group, sparse=i.sparsity)
        for memory, trial, (_, lane, column) in zip(tensor, (trials[0][0], trials[1][1]), cells_by_cta(layout), strict=True):
            memory.cells[lane, column] = trial.cells[lane, column]
        return None
    if i.row.block_scaled:
        make_copies(i, tensor, given, copy)
    if i.sparsity and given["ws"]:  # so does metadata in every band of lanes
        column = given["metadata"].column
        tensor[0].cells[:, column : column + 4] = np.tile(tensor[0].cells[: i.m, column : column + 4], (128 // i.m, 1))
    return run_mma(i, d, a, b, parts, shared, tensor, given)


def cells_by_cta(layout):
    found = layout.location(np.arange(layout.m)[:, None], np.arange(layout.n))
    return [[x[found[0] == cta] for x in found] for cta in range(layout.cta_group)]


def run_mma(i, d, a, b, parts, shared, tensor, given):
    try:
        tcgen05_mma(one_or_pair(tensor), d, a, b, kind=i.kind, shared=one_or_pair(shared), cta_group=len(tensor), **given)
    except Unmodelled:
        if "ss" not in parts or by_hand(i, d, a, b, shared, tensor, given) is None:
            raise


def run_access(card, name, job, results):
    """access.cu."""
    tensor, out, form, place, warps, _ = struct.unpack("<2Q4I", card.at(job, 32).tobytes())
    shape, num, packed, offset = access.forms()[form]
    memory = filled(tensor_words(card, tensor))
    given = {"half_split_offset": offset} if shape == SPLIT else {}
    lane, column = place >> 16, place & 0xFFFF
    one = TmemAccess(shape, repeat=num, pack=packed, taddr=TmemAddress(0, column), **given)
    chosen = [warp for warp in range(4) if warps >> warp & 1]
    if max(32 * warp + lane for warp in chosen) >= 128:
        raise Unmodelled("a lane that tensor memory does not have")
    at = {warp: 32 * warp + lane << 16 | column for warp in chosen}
    thread = np.arange(128, dtype=np.uint32)[:, None]
    if name == "probe_load":
        seen = np.full((128, access.REGISTERS), 0xA5A5A5A5, np.uint32)
        for warp in chosen:
            seen[32 * warp : 32 * warp + 32, : one.registers] = memory.ld(one, warp=warp, taddr=at[warp])
    else:
        value = thread << np.uint32(7) | np.arange(one.registers, dtype=np.uint32)
        registers = value | (value | np.uint32(0x8000)) << np.uint32(16)
        for warp in chosen:
            memory.st(one, registers[32 * warp : 32 * warp + 32], warp=warp, taddr=at[warp])
        seen = memory.cells
    card.at(out, seen.nbytes)[:] = np.ascontiguousarray(seen).view(np.uint8).ravel()
    card.at(results, 4)[:] = (1, 0, 0, 0)


def run_sequence(card, name, ops, count, addresses, cycles):
    """sequence of allocation.cu."""
    group = int(name[-1])
    memories = [TensorMemory(ARCH) for _ in range(group)]
    found, spent = (card.at(where, 2 * suites.MOST_OPS * 4).view(np.uint32).reshape(2, -1) for where in (addresses, cycles))
    try:
        for at, (what, columns, index) in enumerate(card.at(ops, 12 * count).view(np.uint32).reshape(-1, 3).tolist()):
            for cta, memory in enumerate(memories):
                if what == 0:
                    found[cta, at] = TmemAddress.decode(memory.alloc(columns, cta_group=group)).encode()
                elif what == 1:
                    memory.dealloc(int(found[cta, index]), columns, cta_group=group)
                else:
                    memory.relinquish_alloc_permit(cta_group=group)
                spent[cta, at] = 100
    except InputError as e:
        raise device_module.CudaError(FAILED, str(e)) from e


def run_commit(card, name, job, arrivals):
    """commit.cu."""
    group, size = (int(n) for n in name.split("_")[1:])
    issuer, has_mask, mask, _ = card.at(job, 16).view(np.uint32).tolist()
    counts = commit_arrivals(mask if has_mask else None, cluster_size=size, cta_rank=issuer, cta_group=group)
    card.at(arrivals, 4 * size).view(np.uint32)[:] = [counts.get(rank, 0) for rank in range(size)]


def run_contend(card, name, columns, kinds, hold, held):
    """contend of allocation.cu, as if the CTAs ran one after the other."""
    base, raw = card.find(held)
    for cta in range(len(raw) // 32):
        card.at(base + 32 * cta, 32)[:] = np.frombuffer(struct.pack("<2I3Q", 0, 0, cta * hold, cta * hold, cta * hold + hold), np.uint8)


def run_gemm(card, name, maps, plan, d, image, words, results):
    """gemm.cu; the waits are the order of the loops."""
    kind, group = name.split("_")[1], int(name[-1])
    raw = card.at(plan, 496).tobytes()
    boxes_a, boxes_b, k_stage, stages, _, rows_b, mn_a, mn_b, _, idesc, _, _ = struct.unpack_from("<12i", raw)
    numbers = np.frombuffer(raw, np.int32, 96, 48).reshape(2, 3, 16)
    starts = np.frombuffer(raw, np.uint64, 8, 432).reshape(2, 4)
    maps = [card.map_at(maps + 128 * i) for i in range(2)]
    world = card.world(*maps)
    for first in range(0, 2, group):
        shared, tensor = [SharedMemory(ARCH, size=gemm.SHARED) for _ in range(group)], [TensorMemory(ARCH) for _ in range(group)]
        for rank in range(group):
            tensor[rank].alloc(gemm.TILE_N, cta_group=group)
            tensor[rank].cells[:, : gemm.TILE_N] = contents.SENTINEL
            shared[rank].write(shared[rank].begin, bytes(gemm.SHARED))
        for tile in range(stages):
            stage = 0x400 + tile % 3 * 32768
            for rank in range(group):
                for side, (tm, count, mn, row0) in enumerate(
                    zip(maps, (boxes_a, boxes_b), (mn_a, mn_b), ((first + rank) * 128, rank * rows_b), strict=True)
                ):
                    for offset, row, k in numbers[side, :, :count].T.tolist():
                        at = (row0 + row, tile * k_stage + k)
                        shared[rank].tma_load(tm, at if mn else at[::-1], smem_address=stage + side * 16384 + offset, source=world)
            if not first and not tile:
                card.at(image, 32768)[:] = shared[0].bytes[:32768]
            for step in range(4):
                a, b = (int(starts[side, step]) + (stage + side * 16384 >> 4) for side in (0, 1))
                if not first:
                    card.at(words + 16 * (4 * tile + step), 16)[:] = np.array([a, b], np.uint64).view(np.uint8)
                about = {"kind": kind, "shared": one_or_pair(shared), "cta_group": group, "enable_input_d": bool(tile or step)}
                tcgen05_mma(one_or_pair(tensor), 0, a, b, idesc, **about)
        for rank in range(group):
            block = np.ascontiguousarray(tensor[rank].cells[:, : gemm.TILE_N])
            card.at(d + (first + rank) * block.nbytes, block.nbytes)[:] = block.view(np.uint8).ravel()
    card.at(results, 8).view(np.uint32)[:] = 1


MODES = {
    transfers.GATHER: "tile::gather4",
    transfers.GATHER_CTA: "tile::gather4",
    transfers.WIDE: "im2col::w",
    transfers.WIDE_128: "im2col::w::128",
}


def window_of(window, byte=None):
    memory = SharedMemory(ARCH, size=window)
    if byte is not None:
        memory.write(memory.begin, np.full(window, byte, np.uint8))
    return memory


def indexed_window(window, step):
    """The window of a store's pass: a byte of every byte's address, or 0x5A."""
    memory, address = SharedMemory(ARCH, size=window), 0x400 + np.arange(window)
    memory.write(memory.begin, np.full(window, 0x5A, np.uint8) if step == 3 else (address >> 8 * step).astype(np.uint8))
    return memory


def maps_at(card, address):
    return [card.map_at(address + 256 * i) for i in range(4)]


def put_load(card, maps, window, images, results, load):
    """Four passes of a load; `load` gets (window, map, global memory)."""
    world = card.world(*maps)
    for step, tm in enumerate(maps):
        shared = window_of(window, 0xA5)
        transfer = load(shared, tm, world)
        card.at(images + step * window, window)[:] = shared.bytes[:window]
    card.at(results, 8).view(np.uint32)[:] = (transfer.transaction_bytes, COUNTED)


def put_store(card, maps, window, store):
    world = card.world(*maps)
    for step, tm in enumerate(maps):
        store(indexed_window(window, step), tm, world)
    for base, raw in dict(card.find(tm.global_address) for tm in maps).items():
        raw[:] = world.find(base).data


def blackwell_load(card, name, transfer, maps, window, images, results):
    """blackwell_load of transfer.cu."""
    form, rank, *rest = struct.unpack("<7i2H3I", card.at(transfer, 44).tobytes())
    at, (halo, offset, address, _, _) = rest[:5], rest[5:]
    wide = form in (transfers.WIDE, transfers.WIDE_128)
    given = {"mode": MODES[form], "im2col_offsets": (halo, offset) if wide else (), "smem_address": address}
    at = at[:rank] if wide else at
    put_load(card, maps_at(card, maps), window, images, results, lambda shared, tm, world: shared.tma_load(tm, at, source=world, **given))


def blackwell_store(card, name, transfer, maps, window):
    """blackwell_store of transfer.cu."""
    _, _, *at, _, _, address, _, _ = struct.unpack("<7i2H3I", card.at(transfer, 44).tobytes())
    given = {"mode": "tile::scatter4", "smem_address": address}
    put_store(card, maps_at(card, maps), window, lambda shared, tm, world: shared.tma_store(tm, at, to=world, **given))


def blackwell_pair(card, name, transfer, maps, window, images, results):
    """blackwell_pair of transfer.cu: each barrier counts what it is credited with."""
    x, y, address, mbar, _, issuer, barrier_rank, group, mask = struct.unpack("<2i7I", card.at(transfer, 36).tobytes())
    maps = maps_at(card, maps)
    world, counts = card.world(*maps), np.zeros((2, 4), np.uint32)
    for step, tm in enumerate(maps):
        shared = [window_of(window, 0xA5) for _ in range(2)]
        count = window_of(window).tma_load(tm, (x, y), smem_address=address, source=world).transaction_bytes
        about = {"smem_address": ClusterAddress(issuer, address), "mbar": ClusterAddress(barrier_rank, mbar), "transaction_bytes": count}
        for delivery in multicast(mask or None, cluster_size=2, cta_rank=issuer, cta_group=group, **about):
            shared[delivery.cta_rank].tma_load(tm, (x, y), smem_address=delivery.smem_address, source=world)
            counts[delivery.mbar.cta_rank, step] += delivery.transaction_bytes
        for rank in (0, 1):
            card.at(images + (4 * rank + step) * window, window)[:] = shared[rank].bytes[:window]
    card.at(results, 32).view(np.uint32)[:] = counts.ravel()


def arguments_of(card, transfer):
    mode, rank, *rest = struct.unpack("<ii5i4HIII", card.at(transfer, 48).tobytes())
    return mode, rest[:rank], rest[5 : 5 + rank - 2] if mode else (), rest[9]


def plain_load(card, name, transfer, maps, window, images, results):
    """probe_transfer_load of transfer_probe.cu."""
    mode, at, offsets, address = arguments_of(card, transfer)
    given = {"smem_address": address, "im2col_offsets": offsets, "mode": ("tile", "im2col")[mode]}
    put_load(card, maps_at(card, maps), window, images, results, lambda shared, tm, world: shared.tma_load(tm, at, source=world, **given))


def plain_store(card, name, transfer, maps, window):
    """probe_transfer_store of transfer_probe.cu."""
    mode, at, _, address = arguments_of(card, transfer)
    given = {"smem_address": address, "mode": ("tile", "im2col_no_offs")[mode]}
    put_store(card, maps_at(card, maps), window, lambda shared, tm, world: shared.tma_store(tm, at, to=world, **given))


def plain_reduce(card, name, transfer, maps, window, content, operation):
    """probe_transfer_reduce of transfer_probe.cu, its plain stores."""
    assert operation == 0
    _, at, _, address = arguments_of(card, transfer)
    tm = card.map_at(maps)
    world, shared = card.world(tm), SharedMemory(ARCH, size=window)
    shared.write(shared.begin, card.at(content, window))
    shared.tma_store(tm, at, smem_address=address, to=world)
    base, raw = card.find(tm.global_address)
    raw[:] = world.find(base).data


KERNELS = {
    "machine_": run_machine,
    "probe_load": run_access,
    "probe_store": run_access,
    "sequence_": run_sequence,
    "commit_": run_commit,
    "contend": run_contend,
    "gemm_": run_gemm,
    "blackwell_load": blackwell_load,
    "blackwell_store": blackwell_store,
    "blackwell_pair": blackwell_pair,
    "probe_transfer_load": plain_load,
    "probe_transfer_store": plain_store,
    "probe_transfer_reduce": plain_reduce,
}
