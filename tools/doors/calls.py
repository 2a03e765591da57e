"""Every public function and every class that is made by its caller: a call that is right, with one or two of its
arguments anything at all.
"""

from __future__ import annotations

import functools
import inspect
import pathlib
import random
import tempfile
from types import SimpleNamespace
from typing import Any

import numpy as np

import smemsim
from smemsim import SmemDescriptor, TensorMap
from tools.doors.damage import ANYTHING
from tools.doors.guard import Bench, door

__all__ = ["API", "LAUNCHES", "RESULTS", "good_calls"]

WORD = 0x4000004000010040
# Classes that only smemsim makes: what its functions return.
RESULTS = {
    "Answer", "ConflictAnswer", "ConflictFree", "BulkTransfer", "CampaignReport", "CheckFinding", "Choice", "ClusterAddress", "Delivery", "Diagnosis", "DotProduct", "DotTerm", "DeviceArray", "Finding", "FoundDescriptor", "Grade", "LboMode",
    "MmaResult", "Operand", "Plan", "ProductExplanation", "Report", "Run", "RunFinding", "Severity", "Swizzle", "TensorMap", "TilePicture", "Transfer",
}  # fmt: skip
ARRAYS = [np.array(16), np.array([1.5]), np.zeros((0, 4)), np.array(["K"]), np.array([None]), np.zeros((64, 64), np.uint16), np.zeros((8, 16), np.uint8), np.zeros(2**10, np.uint8),
          np.full(4, np.nan), np.array(1, "M8[s]"), np.arange(8)[::-1], np.zeros((64, 64), np.float32), np.uint64(1 << 63), np.float32(1.5), np.bool_(True)]  # fmt: skip

PTX = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n, .param .f32 f, .param .align 64 .b8 map[128]) { ret; }"""
COMPILED = SimpleNamespace(  # what triton.compile returns, as far as launch_triton looks at it
    asm={"ptx": PTX.replace(".param .f32 f, .param .align 64 .b8 map[128]", ".param .u64 scratch, .param .u64 profile")},
    metadata=SimpleNamespace(
        name="k", num_warps=1, num_ctas=1, shared=0, global_scratch_size=0, profile_scratch_size=0, tensordesc_meta=None
    ),
    src=SimpleNamespace(signature={"a": "*fp32", "n": "i32", "B": "constexpr"}),
)


@functools.cache
def _launch_folder() -> pathlib.Path:
    """A folder with a launch file and its kernel."""
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "kernel.ptx").write_text(PTX.replace(PTX[PTX.index("(.param") : PTX.index("{ ret")], "(.param .u64 a) "))
    (folder / "launch.toml").write_text(
        """grid = 1\nblock = 32\nargs = [{array = "a"}]\n[arrays]\na = {dtype = "f32", shape = [4], distribution = "zeros"}\n"""
    )
    return folder


def good_calls() -> dict[str, dict[str, Any]]:
    """Of each public function and class the arguments of a call that returns; memories are new each time."""
    tm = TensorMap.tiled(
        data_type="bf16", global_address=0x10000, global_dim=(64, 16), global_strides=(128,), box_dim=(64, 8), swizzle="128B"
    )
    shared, tensor_memory = smemsim.SharedMemory(), smemsim.TensorMemory(strict=False)
    load = {"tm": tm, "coordinates": (0, 0)}
    whole = load | {"smem_address": 0x400, "shared": np.zeros(4096, np.uint8), "global_": np.zeros(2048, np.uint8)}
    types = {"arch": "sm_90a", "kind": "wgmma", "a_type": "bf16", "b_type": "bf16", "d_type": "f32"}
    one = np.full((8, 16), 0x3F80, np.uint16)
    layout = smemsim.AccumulatorLayout(128, 8)
    blackwell = SmemDescriptor(arch="sm_100a", start_address=1024, stride_byte_offset=1024, swizzle="128B")
    idesc = smemsim.InstrDescriptor(kind="f16", m=128, n=8, a_type="bf16", b_type="bf16")
    square = np.zeros((64, 64), np.uint16)
    bulk = {"dst": 1024, "src": 4096, "size": 256, "dst_space": "shared::cta", "src_space": "global", "mbar": 0x4000}
    return {
        "ATmemLayout": {"m": 128, "kind": "f16"},
        "AccumulatorLayout": {"m": 128, "n": 64, "cta_group": 1, "ws": False, "sparse": False, "lane": 0, "column": 0},
        "Cluster": {"size": 2, "arch": "sm_90a", "shared_bytes": 4096},
        "CuteLayout": {"shape": (8, 64), "stride": (64, 1)},
        "GlobalMemory": {},
        "Gpu": {"arch": "sm_90a"},
        "InstrDescriptor": {"kind": "f16", "m": 128, "n": 128, "a_type": "bf16", "b_type": "bf16", "d_type": "f32", "a_major": "K", "negate_a": False, "saturate": False},
        "MetadataLayout": {"m": 128, "kind": "f16"},
        "ScaleLayout": {"operand": "A", "m": 128, "n": 64, "kind": "mxf8f6f4", "scale_vec": "1X"},
        "Scenario": {"arch": "sm_90a", "title": "x"},
        "SharedMemory": {"arch": "sm_90a", "size": 4096},
        "SmemDescriptor": {"arch": "sm_90a", "start_address": 0x400, "leading_byte_offset": 16, "stride_byte_offset": 1024, "base_offset": 0, "swizzle": "128B"},
        "TensorMemory": {"arch": "sm_100a", "strict": True},
        "TmemAccess": {"shape": "32x32b", "repeat": 2, "pack": False, "taddr": 0},
        "TmemAddress": {"lane": 32, "column": 4},
        "build_sequence": {"tm": tm},
        "bulk_copy": bulk | {"cta_rank": 0},
        "bulk_prefetch": {"src": 4096, "size": 64},
        "bulk_reduce": {"op": "add", "dtype": "u32", "dst": 1 << 20, "src": 1024, "size": 64, "dst_space": "global"},
        "bulk_bytes": {"transfer": smemsim.bulk_copy(**(bulk | {"dst": 1024, "src": 0})), "dst": np.zeros(256, np.uint8), "src": np.zeros(256, np.uint8)},
        "check": {"scenario": {"arch": "sm_90a"}},
        "dot_product": {"a": [0x3F80] * 16, "b": [0x3F80] * 16, "c": 0, **types, "negate_a": False, "saturate": False},
        "element_value": {"bits": 0x3F80, "dtype": "bf16"},
        "explain_difference": {"results": _product(), "d": np.zeros((64, 8), np.uint32)},
        "explain_product": {"d": np.zeros((64, 64), np.uint32), "a": square, "b": square, "c": None, "arch": "sm_90a", "a_type": "bf16", "a_swizzle": "128B", "m": 64, "n": 64},
        "find_descriptors": {"places": 1024 + 128 * np.arange(64)[:, None] + 2 * np.arange(16), "arch": "sm_90a", "dtype": "bf16", "major": "K", "rows": 64, "k": 16},
        "from_float64": {"values": [1.0, -2.5], "dtype": "bf16"},
        "BankAccess": {"op": "ld", "at": np.zeros((1, 32), np.int64), "size": 4, "active": 0xFFFFFFFF, "name": ""},
        "conflict_free_layouts": {"accesses": [smemsim.BankAccess("st", np.arange(32)[None] * 128, 4)], "pitch": 128, "tma": False, "swizzle": None, "most": 2},
        "launch_file": {"path": _launch_folder(), "sanitize": True, "limit": 1 << 20},
        "launch_triton": {"kernel": COMPILED, "grid": 1, "gpu": None, "a": np.zeros(4, np.float32), "n": 4, "sanitize": True, "progress": False},
        "mapa": {"smem_address": 1024, "cta_rank": 1},
        "mma": {"a": one, "b": one, "c": np.zeros((8, 8), np.uint32), **types, "scale_a": None, "block": None, "scale_input_d": 0},
        "multicast": {"cta_mask": 3, "cluster_size": 2, "cta_rank": 0, "smem_address": 1024, "mbar": 0x4000, "transaction_bytes": 128, "cta_group": 1},
        "operand_addresses": {"descriptor": WORD, "arch": "sm_90a", "dtype": "bf16", "major": "K", "rows": 8, "k": 16, "packing": "packed", "out": None},
        "plan": {"rows": 64, "k": 64, "dtype": "bf16", "major": "K", "swizzle": "128B", "arch": "sm_90a", "m": 64, "n": 64, "side": "a", "base_address": 1024, "matrix": None, "at": (0, 0)},
        "plans": {"rows": 64, "k": 64, "dtype": "bf16", "major": "K", "arch": "sm_90a"},
        "show_html": {"scenario": {"arch": "sm_90a"}},
        "tcgen05_cp": {"tensor_memory": tensor_memory, "taddr": 0, "descriptor": blackwell, "shape": "128x256b", "shared": smemsim.SharedMemory("sm_100a")},
        "tcgen05_mma": {"tensor_memory": tensor_memory, "d": 0, "a": blackwell, "b": blackwell, "idesc": idesc, "shared": smemsim.SharedMemory("sm_100a"), "kind": "f16", "cta_group": 1, "ws": False},
        "tcgen05_shift": {"tensor_memory": tensor_memory, "taddr": 0, "cta_group": 1},
        "tensormap_replace": {"raw": bytes(tm), "field": "global_address", "new_value": 0x20000, "ordinal": None, "arch": "sm_90a"},
        "tile_svg": {"tile": _picture(), "selected": (0, 0), "most": 48},
        "tma_load": load | {"smem_address": 0x400, "mode": None, "arch": None, "im2col_offsets": ()},
        "tma_load_bytes": whole | {"mode": None, "arch": None},
        "tma_prefetch": load | {"mode": None, "arch": None},
        "tma_reduce": whole | {"op": "add", "mode": None},
        "tma_store": load | {"smem_address": 0x400, "mode": None, "arch": None},
        "tma_store_bytes": whole | {"mode": None},
        "tmem_put": {"tensor_memory": tensor_memory, "layout": layout, "values": np.zeros((128, 8), np.uint32), "label": "threads"},
        "tmem_take": {"tensor_memory": tensor_memory, "layout": layout, "copy": 0},
        "to_float64": {"bits": [0x3F80], "dtype": "bf16"},
        "wgmma": {"shared": shared, "a": WORD, "b": WORD, "n": 8, "a_type": "bf16", "b_type": "bf16", "d_type": "f32", "d": None, "scale_d": True, "a_major": "K"},
        "wgmma_registers": {"result": _product()},
    }  # fmt: skip


@functools.cache
def _product() -> Any:
    return smemsim.wgmma(smemsim.SharedMemory(), WORD, WORD, n=8, a_type="bf16")


@functools.cache
def _picture() -> Any:
    return smemsim.TilePicture.of(WORD, arch="sm_90a", dtype="bf16", major="K", rows=64, k=16)


def _called(name: str, arguments: dict[str, Any]) -> None:
    result = getattr(smemsim, name)(**arguments)
    if not inspect.isgenerator(result):
        repr(result)


def _calls(rng: random.Random, cases: int, bench: Bench) -> None:
    good: dict[str, dict[str, Any]] = {}
    for number in range(cases):
        if number % 50 == 0:
            good = good_calls()
        name = rng.choice(list(good))
        arguments = dict(good[name])
        others = [value for of in good.values() for value in of.values()]
        for _ in range(rng.choice((1, 1, 2))):
            if arguments:
                arguments[rng.choice(list(arguments))] = rng.choice(rng.choice((ANYTHING, ANYTHING, ARRAYS, others)))
        told = {key: repr(value)[:200] for key, value in arguments.items()}
        bench.through(lambda name=name, arguments=arguments: _called(name, arguments), {"call": name, **told})


def _launches(rng: random.Random, cases: int, bench: Bench) -> None:
    """Arrays, sizes and launches on one GPU; the kernel does nothing, and the grid stays small."""
    gpu = smemsim.Gpu()
    array, tm = (
        gpu.zeros(1024, np.uint8),
        TensorMap.tiled(data_type="u8", global_address=0x100, global_dim=(64,), global_strides=(), box_dim=(64,)),
    )
    values = [*ANYTHING, *ARRAYS, array, tm, object(), b"1234", SimpleNamespace(address=5), COMPILED]
    for _ in range(cases):
        value = rng.choice(values)
        kind = rng.choice(("array", "zeros", "dtype", "update", "argument", "argument", "launch", "launch"))
        told = {"call": kind, "value": repr(value)[:200]}
        if kind == "launch":
            key = rng.choice(("ptx", "entry", "block", "cluster", "shared_bytes", "args", "ctas"))
            given = {"ptx": PTX, "entry": "k", "args": [array, 1, 0.5, tm], "progress": False} | {key: value}
            bench.through(lambda given=given: gpu.launch(**given), told | {"key": key})
        elif kind == "argument":
            args: list[Any] = [array, 1, 0.5, tm]
            args[place := rng.randrange(4)] = value
            bench.through(lambda args=args: gpu.launch(PTX, args=args, progress=False), told | {"place": place})
        else:
            call = {"array": gpu.array, "zeros": lambda v: gpu.zeros(v if not isinstance(v, int) else min(v, 1 << 20)),
                    "dtype": lambda v: gpu.zeros(4, v), "update": array.update}[kind]  # fmt: skip
            bench.through(lambda call=call, value=value: repr(call(value)), told)


LAUNCHES = door("launches", "arrays and launches on a simulated GPU with an argument that is anything", 400, _launches)
API = door("api", "every public function with one or two arguments that are anything", 400, _calls)
