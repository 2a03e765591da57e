"""The cards that a virtual GPU can be: the values that their drivers report, each with its source and grade.

The attributes of the H200 are the results of cuDeviceGetAttribute (driver 580.159.04, CUDA 13.0). No other card was
measured for this table. A value is documented if a document, a header or the posted output of such a card has it. Other
values are unknown: attributes that differ between products are 0, and the device prints that once. The rest is taken
from the H200 (inferred).
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from typing import NamedTuple

from smemsim.base.arguments import shown
from smemsim.base.errors import InputError
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.launches import Residency

__all__ = [
    "ALL_CARDS", "CARDS", "DEVICE_LIMITS", "DRIVER_RELEASE", "DRIVER_VERSION", "HEAP_LIMIT", "MAPPING_BYTES", "PERSISTING_LIMIT", "PROPERTIES", "PROPERTY_BYTES", "REGISTER_UNIT", "SHARED_LIMIT", "SHARED_UNIT",
    "WARP_UNIT", "Card", "Known", "card_named", "card_of", "residency_of",
]  # fmt: skip

# The virtual driver calls itself newer than every CUDA 13 that there is, so that no library of CUDA 13 finds it too
# old.
DRIVER_VERSION = 13090
DRIVER_RELEASE = "580.159.04"  # of the H200 that was measured
# cuMemGetAllocationGranularity: 2 MiB on discrete cards (CUDA's samples and documents; not measured here)
MAPPING_BYTES = 2 << 20

# Attributes of CUdevice_attribute by name: (number, value on an H200).
# fmt: off
_H200: dict[str, tuple[int, int]] = {
    "max_threads_per_block": (1, 1024), "max_block_dim_x": (2, 1024), "max_block_dim_y": (3, 1024), "max_block_dim_z": (4, 64),
    "max_grid_dim_x": (5, 2147483647), "max_grid_dim_y": (6, 65535), "max_grid_dim_z": (7, 65535), "max_shared_memory_per_block": (8, 49152),
    "total_constant_memory": (9, 65536), "warp_size": (10, 32), "max_pitch": (11, 2147483647), "max_registers_per_block": (12, 65536),
    "clock_rate": (13, 1980000), "texture_alignment": (14, 512), "gpu_overlap": (15, 1), "multiprocessor_count": (16, 132),
    "kernel_exec_timeout": (17, 0), "integrated": (18, 0), "can_map_host_memory": (19, 1), "compute_mode": (20, 0),
    "maximum_texture1d_width": (21, 131072), "maximum_texture2d_width": (22, 131072), "maximum_texture2d_height": (23, 65536),
    "maximum_texture3d_width": (24, 16384), "maximum_texture3d_height": (25, 16384), "maximum_texture3d_depth": (26, 16384),
    "maximum_texture2d_layered_width": (27, 32768), "maximum_texture2d_layered_height": (28, 32768), "maximum_texture2d_layered_layers": (29, 2048),
    "surface_alignment": (30, 512), "concurrent_kernels": (31, 1), "ecc_enabled": (32, 1), "pci_bus_id": (33, 0), "pci_device_id": (34, 6),
    "tcc_driver": (35, 0), "memory_clock_rate": (36, 3201000), "global_memory_bus_width": (37, 6016), "l2_cache_size": (38, 62914560),
    "max_threads_per_multiprocessor": (39, 2048), "async_engine_count": (40, 3), "unified_addressing": (41, 1),
    "maximum_texture1d_layered_width": (42, 32768), "maximum_texture1d_layered_layers": (43, 2048), "can_tex2d_gather": (44, 1),
    "maximum_texture2d_gather_width": (45, 32768), "maximum_texture2d_gather_height": (46, 32768), "maximum_texture3d_width_alternate": (47, 8192),
    "maximum_texture3d_height_alternate": (48, 8192), "maximum_texture3d_depth_alternate": (49, 32768), "pci_domain_id": (50, 0),
    "texture_pitch_alignment": (51, 32), "maximum_texturecubemap_width": (52, 32768), "maximum_texturecubemap_layered_width": (53, 32768),
    "maximum_texturecubemap_layered_layers": (54, 2046), "maximum_surface1d_width": (55, 32768), "maximum_surface2d_width": (56, 131072),
    "maximum_surface2d_height": (57, 65536), "maximum_surface3d_width": (58, 16384), "maximum_surface3d_height": (59, 16384),
    "maximum_surface3d_depth": (60, 16384), "maximum_surface1d_layered_width": (61, 32768), "maximum_surface1d_layered_layers": (62, 2048),
    "maximum_surface2d_layered_width": (63, 32768), "maximum_surface2d_layered_height": (64, 32768), "maximum_surface2d_layered_layers": (65, 2048),
    "maximum_surfacecubemap_width": (66, 32768), "maximum_surfacecubemap_layered_width": (67, 32768),
    "maximum_surfacecubemap_layered_layers": (68, 2046), "maximum_texture1d_linear_width": (69, 268435456),
    "maximum_texture2d_linear_width": (70, 131072), "maximum_texture2d_linear_height": (71, 65000), "maximum_texture2d_linear_pitch": (72, 2097120),
    "maximum_texture2d_mipmapped_width": (73, 32768), "maximum_texture2d_mipmapped_height": (74, 32768), "compute_capability_major": (75, 9),
    "compute_capability_minor": (76, 0), "maximum_texture1d_mipmapped_width": (77, 32768), "stream_priorities_supported": (78, 1),
    "global_l1_cache_supported": (79, 1), "local_l1_cache_supported": (80, 1), "max_shared_memory_per_multiprocessor": (81, 233472),
    "max_registers_per_multiprocessor": (82, 65536), "managed_memory": (83, 1), "multi_gpu_board": (84, 0), "multi_gpu_board_group_id": (85, 0),
    "host_native_atomic_supported": (86, 0), "single_to_double_precision_perf_ratio": (87, 2), "pageable_memory_access": (88, 0),
    "concurrent_managed_access": (89, 1), "compute_preemption_supported": (90, 1), "can_use_host_pointer_for_registered_mem": (91, 1),
    "can_use_stream_mem_ops_v1": (92, 0), "can_use_64_bit_stream_mem_ops_v1": (93, 0), "can_use_stream_wait_value_nor_v1": (94, 0),
    "cooperative_launch": (95, 1), "cooperative_multi_device_launch": (96, 1), "max_shared_memory_per_block_optin": (97, 232448),
    "can_flush_remote_writes": (98, 0), "host_register_supported": (99, 1), "pageable_memory_access_uses_host_page_tables": (100, 0),
    "direct_managed_mem_access_from_host": (101, 0), "virtual_address_management_supported": (102, 1),
    "handle_type_posix_file_descriptor_supported": (103, 1), "handle_type_win32_handle_supported": (104, 0),
    "handle_type_win32_kmt_handle_supported": (105, 0), "max_blocks_per_multiprocessor": (106, 32), "generic_compression_supported": (107, 1),
    "max_persisting_l2_cache_size": (108, 39321600), "max_access_policy_window_size": (109, 134217728),
    "gpu_direct_rdma_with_cuda_vmm_supported": (110, 1), "reserved_shared_memory_per_block": (111, 1024), "sparse_cuda_array_supported": (112, 1),
    "read_only_host_register_supported": (113, 1), "timeline_semaphore_interop_supported": (114, 1), "memory_pools_supported": (115, 1),
    "gpu_direct_rdma_supported": (116, 1), "gpu_direct_rdma_flush_writes_options": (117, 1), "gpu_direct_rdma_writes_ordering": (118, 100),
    "mempool_supported_handle_types": (119, 9), "cluster_launch": (120, 1), "deferred_mapping_cuda_array_supported": (121, 1),
    "can_use_64_bit_stream_mem_ops": (122, 1), "can_use_stream_wait_value_nor": (123, 1), "dma_buf_supported": (124, 1),
    "ipc_event_supported": (125, 1), "mem_sync_domain_count": (126, 4), "tensor_map_access_supported": (127, 1),
    "handle_type_fabric_supported": (128, 1), "unified_function_pointers": (129, 1), "numa_config": (130, 0), "numa_id": (131, -1),
    "multicast_supported": (132, 0), "mps_enabled": (133, 0), "host_numa_id": (134, 0), "d3d12_cig_supported": (135, 0),
    "mem_decompress_algorithm_mask": (136, 0), "mem_decompress_maximum_length": (137, 0), "vulkan_cig_supported": (138, 0),
    "gpu_pci_device_id": (139, 590680286), "gpu_pci_subsystem_id": (140, 415174878), "host_numa_virtual_memory_management_supported": (141, 1),
    "host_numa_memory_pools_supported": (142, 1), "host_numa_multinode_ipc_supported": (143, 0), "host_memory_pools_supported": (144, 1),
    "host_virtual_memory_management_supported": (145, 1), "host_alloc_dma_buf_supported": (146, 0),
    "only_partial_host_native_atomic_supported": (147, 0),
}

# What cuCtxGetLimit gave on an H200, by number of CUlimit: stack, printf, heap, pending launches, L2 granularity,
# persisting L2, shared memory.
HEAP_LIMIT, PERSISTING_LIMIT, SHARED_LIMIT = 2, 6, 7
DEVICE_LIMITS = {0: 1024, 1: 8650752, 2: 8388608, 4: 2048, 5: 64, 6: 11796480, 7: 232448, 8: 0}

# Fields of cudaDeviceProp: name, attribute, offsets in the structures of CUDA 12 and 13 (None: not there), bytes. From
# driver_types.h of 12.9, 13.0.
PROPERTIES: tuple[tuple[str, str, int | None, int | None, int], ...] = (
    ("totalConstMem", "total_constant_memory", 352, 352, 8),
    ("sharedMemPerBlock", "max_shared_memory_per_block", 296, 296, 8),
    ("regsPerBlock", "max_registers_per_block", 304, 304, 4),
    ("warpSize", "warp_size", 308, 308, 4),
    ("memPitch", "max_pitch", 312, 312, 8),
    ("maxThreadsPerBlock", "max_threads_per_block", 320, 320, 4),
    ("clockRate", "clock_rate", 348, None, 4),
    ("major", "compute_capability_major", 360, 360, 4),
    ("minor", "compute_capability_minor", 364, 364, 4),
    ("textureAlignment", "texture_alignment", 368, 368, 8),
    ("texturePitchAlignment", "texture_pitch_alignment", 376, 376, 8),
    ("deviceOverlap", "gpu_overlap", 384, None, 4),
    ("multiProcessorCount", "multiprocessor_count", 388, 384, 4),
    ("kernelExecTimeoutEnabled", "kernel_exec_timeout", 392, None, 4),
    ("canMapHostMemory", "can_map_host_memory", 400, 392, 4),
    ("concurrentKernels", "concurrent_kernels", 576, 560, 4),
    ("ECCEnabled", "ecc_enabled", 580, 564, 4),
    ("pciBusID", "pci_bus_id", 584, 568, 4),
    ("pciDeviceID", "pci_device_id", 588, 572, 4),
    ("pciDomainID", "pci_domain_id", 592, 576, 4),
    ("asyncEngineCount", "async_engine_count", 600, 584, 4),
    ("unifiedAddressing", "unified_addressing", 604, 588, 4),
    ("memoryClockRate", "memory_clock_rate", 608, None, 4),
    ("memoryBusWidth", "global_memory_bus_width", 612, 592, 4),
    ("l2CacheSize", "l2_cache_size", 616, 596, 4),
    ("persistingL2CacheMaxSize", "max_persisting_l2_cache_size", 620, 600, 4),
    ("maxThreadsPerMultiProcessor", "max_threads_per_multiprocessor", 624, 604, 4),
    ("streamPrioritiesSupported", "stream_priorities_supported", 628, 608, 4),
    ("globalL1CacheSupported", "global_l1_cache_supported", 632, 612, 4),
    ("localL1CacheSupported", "local_l1_cache_supported", 636, 616, 4),
    ("sharedMemPerMultiprocessor", "max_shared_memory_per_multiprocessor", 640, 624, 8),
    ("regsPerMultiprocessor", "max_registers_per_multiprocessor", 648, 632, 4),
    ("managedMemory", "managed_memory", 652, 636, 4),
    ("singleToDoublePrecisionPerfRatio", "single_to_double_precision_perf_ratio", 668, None, 4),
    ("pageableMemoryAccess", "pageable_memory_access", 672, 652, 4),
    ("concurrentManagedAccess", "concurrent_managed_access", 676, 656, 4),
    ("computePreemptionSupported", "compute_preemption_supported", 680, 660, 4),
    ("canUseHostPointerForRegisteredMem", "can_use_host_pointer_for_registered_mem", 684, 664, 4),
    ("cooperativeLaunch", "cooperative_launch", 688, 668, 4),
    ("sharedMemPerBlockOptin", "max_shared_memory_per_block_optin", 696, 672, 8),
    ("maxBlocksPerMultiProcessor", "max_blocks_per_multiprocessor", 712, 688, 4),
    ("accessPolicyMaxWindowSize", "max_access_policy_window_size", 716, 692, 4),
    ("reservedSharedMemPerBlock", "reserved_shared_memory_per_block", 720, 696, 8),
    ("hostRegisterSupported", "host_register_supported", 728, 704, 4),
    ("memoryPoolsSupported", "memory_pools_supported", 744, 720, 4),
    ("clusterLaunch", "cluster_launch", 772, 748, 4),
    ("unifiedFunctionPointers", "unified_function_pointers", 776, 752, 4),
    ("surfaceAlignment", "surface_alignment", 568, 552, 8),
    ("maxTexture1D", "maximum_texture1d_width", 408, 396, 4),
)
PROPERTY_BYTES = {12: 1032, 13: 1008}
# fmt: on


# What a multiprocessor gives out, in units of these: bytes of shared memory, registers of a warp, warps of the register
# file. With them 15,200 answers of cuOccupancyMaxActiveBlocksPerMultiprocessor on an H200 come out as they were
# (tests/data/h200_card.npz); taken over for Blackwell (inferred).
SHARED_UNIT, REGISTER_UNIT, WARP_UNIT = 128, 256, 4

# CTAs of a multiprocessor that count for clusters, and what cuOccupancyMaxActiveClusters gave on one H200 (measured).
MOST_CLUSTERED = 8
_H200_CLUSTERS = {
    2: {1: 66}, 4: {1: 30, 2: 62, 3: 92, 6: 186, 8: 248}, 8: {1: 15, 2: 30, 3: 45, 6: 92, 8: 124}, 16: {1: 7, 2: 14, 3: 21, 6: 42, 8: 58},
}  # fmt: skip


class Known(NamedTuple):
    """A value of a card, its grade and its source. `value` None: unknown."""

    value: int | None
    grade: Grade | None
    source: str


# Attributes that belong to a product, or to the machine that it is in: without a source they are unknown.
OF_PRODUCTS = frozenset((
    "clock_rate", "memory_clock_rate", "global_memory_bus_width", "l2_cache_size", "max_persisting_l2_cache_size", "async_engine_count", "ecc_enabled",
    "integrated", "host_native_atomic_supported", "pageable_memory_access", "pageable_memory_access_uses_host_page_tables",
    "direct_managed_mem_access_from_host", "single_to_double_precision_perf_ratio", "mem_sync_domain_count", "multicast_supported",
    "gpu_pci_device_id", "gpu_pci_subsystem_id", "max_access_policy_window_size", "multiprocessor_count",
))  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Card:
    """One kind of card. The attributes that differ from the H200's are `own`, with `source`.

    The number of clusters of each size that the card holds at once is `clusters`, by the CTAs that a multiprocessor
    holds. It depends on which multiprocessors of which GPC are disabled. There is no simple formula. If it is empty,
    `gpcs` is used: multiprocessors of each GPC.

    Short names for --card are `names`. The source and grade of single attributes are `sources`. If `is_whole` is set,
    every attribute is known.
    """

    name: str
    arch: str
    memory_bytes: int
    own: Mapping[str, int]
    gpcs: tuple[int, ...]
    source: str
    clusters: Mapping[int, Mapping[int, int]] = dataclasses.field(default_factory=dict)
    names: tuple[str, ...] = ()
    sources: Mapping[str, tuple[Grade, str]] = dataclasses.field(default_factory=dict)
    memory_source: str = ""
    is_whole: bool = False

    def clusters_at_once(self, size: int, each: int) -> int:
        """The clusters of `size` CTAs that the whole card holds, if a multiprocessor holds `each` CTAs; more than 8 do
        not count.

        For a card with unknown GPCs this is an upper bound: as if one GPC had all multiprocessors.

        >>> [CARDS["sm_90a"].clusters_at_once(size, 1) for size in (1, 2, 4, 8, 16)]
        [132, 66, 30, 15, 7]
        """
        each = min(each, MOST_CLUSTERED)
        known = self.clusters.get(size, {})
        below = max((n for n in known if n <= each), default=0)
        if below:
            return known[below] * each // below
        return sum(gpc * each // size for gpc in self.gpcs or (self.named("multiprocessor_count"),))

    def attribute(self, number: int) -> int | None:
        """The value of an attribute by its number; None where the driver knows no such number."""
        return next((self.named(name) for name, (n, _) in _H200.items() if n == number), None)

    def named(self, name: str) -> int:
        """The value of an attribute by its name; 0 for one that is unknown.

        >>> CARDS["sm_90a"].named("multiprocessor_count"), CARDS["sm_100a"].named("compute_capability_major")
        (132, 10)
        """
        return self.own.get(name, 0 if name in self.unknown else _H200[name][1])

    def known(self, name: str) -> Known:
        """An attribute by its name, with its grade and its source.

        >>> card_named("RTX 5080").known("l2_cache_size").value, card_named("RTX 5080").known("clock_rate").value
        (67108864, None)
        """
        if name in self.unknown:
            return Known(None, None, "no source is known")
        if name in self.own:
            return Known(self.own[name], *self.sources.get(name, (Grade.DOCUMENTED, self.source)))
        if not self.own:
            return Known(self.named(name), Grade.MEASURED, self.source)
        return Known(self.named(name), Grade.INFERRED, "taken over from the H200")

    @property
    def unknown(self) -> frozenset[str]:
        """The names of its attributes that have no source."""
        return frozenset() if self.is_whole else OF_PRODUCTS.difference(self.own)

    @property
    def unknown_numbers(self) -> frozenset[int]:
        """The numbers of `unknown` attributes."""
        return frozenset(_H200[name][0] for name in self.unknown)

    @property
    def capability(self) -> tuple[int, int]:
        """Its compute capability."""
        return self.named("compute_capability_major"), self.named("compute_capability_minor")


# ---- What a compute capability says


_HEADER = "cuda_occupancy.h of CUDA 13.0; arch_traits.h of CCCL"
_CUDA_GUIDE = "CUDA programming guide, technical specifications per compute capability"


def _capability(major: int, minor: int, threads: int, ctas: int, shared_kib: int) -> dict[str, int]:
    """The attributes that a compute capability decides: `threads`, `ctas` and KiB of shared
    memory of a multiprocessor.
    """
    return {
        "compute_capability_major": major, "compute_capability_minor": minor, "max_threads_per_multiprocessor": threads,
        "max_blocks_per_multiprocessor": ctas, "max_shared_memory_per_multiprocessor": shared_kib << 10,
        "max_shared_memory_per_block_optin": (shared_kib - 1) << 10, "cluster_launch": int(major >= 9), "tensor_map_access_supported": int(major >= 9),
    }  # fmt: skip


_CAPABILITIES: dict[str, dict[str, int]] = {
    "sm_80": _capability(8, 0, 2048, 32, 164), "sm_86": _capability(8, 6, 1536, 16, 100), "sm_89": _capability(8, 9, 1536, 24, 100),
    "sm_90a": _capability(9, 0, 2048, 32, 228), "sm_110a": _capability(11, 0, 1536, 24, 228),
    "sm_120a": _capability(12, 0, 1536, 24, 100), "sm_121a": _capability(12, 1, 1536, 24, 100),
}  # fmt: skip
# Throughput of f64 against f32 (CUDA programming guide, arithmetic instructions).
_RATIOS = {"sm_80": 2, "sm_86": 32, "sm_89": 64, "sm_90a": 2, "sm_120a": 64}


# ---- Products


def _product(
    name: str, names: tuple[str, ...], arch: str, memory: tuple[int, str], output: str, gpcs: tuple[int, ...] = (),
    clusters: Mapping[int, Mapping[int, int]] | None = None, said: str = "", **own: int,
) -> Card:  # fmt: skip
    """A card: `own` are the attributes that `output` has (the posted output of such a card); those of its capability
    come in addition.
    """
    of_capability = _CAPABILITIES[arch] | ({"single_to_double_precision_perf_ratio": _RATIOS[arch]} if arch in _RATIOS else {})
    sources = dict.fromkeys(of_capability, (Grade.DOCUMENTED, _HEADER)) | dict.fromkeys(own, (Grade.DOCUMENTED, output))
    if arch in _RATIOS:
        sources["single_to_double_precision_perf_ratio"] = Grade.DOCUMENTED, "CUDA programming guide, arithmetic instructions"
    source = f"{output}; {_HEADER}{f'; {said}' if said else ''}"
    return Card(name, arch, memory[0], of_capability | own, gpcs, source, clusters or {}, names, sources, memory[1])


_TORCH = "properties printed by torch on such a card (public)"
_QUERY = "deviceQuery of such a card (public)"
_B200 = {
    "compute_capability_major": 10, "compute_capability_minor": 0, "multiprocessor_count": 148, "l2_cache_size": 132644864,
    "clock_rate": 1965000, "memory_clock_rate": 3996000, "global_memory_bus_width": 8192,
}  # fmt: skip
# The first card of an architecture is the one that --arch means.
ALL_CARDS: tuple[Card, ...] = (
    Card(
        "NVIDIA H200", "sm_90a", 150109880320, {}, (16, 16, 16, 16, 16, 18, 18, 16), "measured: cuDeviceGetAttribute on an H200; GPCs inferred", _H200_CLUSTERS,
        names=("H200",), memory_source="cuDeviceTotalMem on an H200", is_whole=True,
    ),
    Card(
        "NVIDIA B200", "sm_100a", 183359 << 20, _B200, (18, 18, 18, 18, 20, 20, 18, 18),
        "NVIDIA DGX B200 datasheet, CUDA programming guide (compute capability 10.0); 148 SMs: CUTLASS hardware_info, Triton; GPCs inferred",
        names=("B200",), is_whole=True,
    ),
    Card(
        "NVIDIA B300", "sm_103a", 275040 << 20, {**_B200, "compute_capability_minor": 3, "single_to_double_precision_perf_ratio": 64},
        (18, 18, 18, 18, 20, 20, 18, 18), "NVIDIA DGX B300 datasheet, CUDA programming guide (compute capability 10.3); GPCs inferred",
        names=("B300",), is_whole=True,
    ),
    _product("NVIDIA GeForce RTX 5090", ("RTX 5090", "5090"), "sm_120a", (33680457728, f"{_QUERY}: NVIDIA/nccl issue 1637"), f"{_QUERY}: NVIDIA/nccl issue 1637",
             clusters={1: {1: 170}, 2: {1: 85}, 4: {1: 41}, 8: {1: 19}}, said="clusters at once: Dao-AILab/quack, benchmarks/sm120_cluster_benchmark.md",
             multiprocessor_count=170, l2_cache_size=100663296, clock_rate=2550000, memory_clock_rate=14001000, global_memory_bus_width=512),
    _product("NVIDIA GeForce RTX 5080", ("RTX 5080", "5080"), "sm_120a", (16302 << 20, _TORCH), _TORCH, multiprocessor_count=84, l2_cache_size=64 << 20),
    _product("NVIDIA RTX PRO 6000 Blackwell Server Edition", ("RTX PRO 6000", "RTX PRO 6000 Blackwell"), "sm_120a", (97250 << 20, _TORCH),
             "NVIDIA RTX Blackwell PRO whitepaper: 188 of 192 SMs, 128 MB of L2", multiprocessor_count=188, l2_cache_size=128 << 20),
    _product("NVIDIA GB10", ("GB10", "DGX Spark"), "sm_121a", (130602405888, _TORCH), f"{_TORCH}: integrated; 6,144 CUDA cores (NVIDIA, DGX Spark), 128 a multiprocessor",
             multiprocessor_count=48, integrated=1),
    _product("NVIDIA Thor", ("Thor", "Jetson Thor", "Jetson AGX Thor"), "sm_110a", (128 << 30, "NVIDIA Jetson AGX Thor datasheet, all of it nominal"),
             "output of such a card: forums.developer.nvidia.com/356355", multiprocessor_count=20, l2_cache_size=32 << 20),
    _product("NVIDIA H100 80GB HBM3", ("H100", "H100 SXM", "H100 SXM5"), "sm_90a", (81090 << 20, _TORCH), _TORCH, multiprocessor_count=132, l2_cache_size=50 << 20),
    _product("NVIDIA H100 PCIe", ("H100 PCIe",), "sm_90a", (81008 << 20, _TORCH), f"{_TORCH}; L2: Apache TVM, tag_registry/cuda.py",
             multiprocessor_count=114, l2_cache_size=50 << 20),
    _product("NVIDIA GH200 480GB", ("GH200",), "sm_90a", (96 << 30, "NVIDIA GH200 datasheet, nominal"), "report of a run on such a card (public)", multiprocessor_count=132),
    _product("NVIDIA A100-SXM4-40GB", ("A100", "A100 40GB"), "sm_80", (42298834944, f"{_QUERY}: bottlerocket-os/bottlerocket pull request 3873"),
             f"{_QUERY}: bottlerocket-os/bottlerocket pull request 3873", multiprocessor_count=108, l2_cache_size=41943040, clock_rate=1410000,
             memory_clock_rate=1215000, global_memory_bus_width=5120, async_engine_count=3, ecc_enabled=1, integrated=0),
    _product("NVIDIA GeForce RTX 3090", ("RTX 3090", "3090"), "sm_86", (24575 << 20, _TORCH), _TORCH, multiprocessor_count=82),
    _product("NVIDIA GeForce RTX 4090", ("RTX 4090", "4090"), "sm_89", (24563 << 20, _TORCH), _TORCH, multiprocessor_count=128, l2_cache_size=72 << 20),
    _product("NVIDIA L40S", ("L40S",), "sm_89", (45589 << 20, _TORCH), _TORCH, multiprocessor_count=142),
)  # fmt: skip
# By architecture, the card that it means.
CARDS: dict[str, Card] = {arch: next(c for c in ALL_CARDS if c.arch == arch) for arch in dict.fromkeys(card.arch for card in ALL_CARDS)}


def card_of(arch: str) -> Card:
    """The card of an architecture.

    >>> card_of("sm_90a").name
    'NVIDIA H200'
    """
    if arch not in CARDS:
        raise InputError(f"arch = {shown(arch)}: needs one of {', '.join(CARDS)}")
    return CARDS[arch]


def residency_of(arch: str) -> Residency:
    """How much of a grid a multiprocessor of an architecture's card holds at once.

    >>> residency_of("sm_120a")
    Residency(threads=1536, ctas=24, shared_bytes=102400, reserved_bytes=1024)
    """
    named = card_of(arch).named
    return Residency(
        named("max_threads_per_multiprocessor"), named("max_blocks_per_multiprocessor"), named("max_shared_memory_per_multiprocessor"),
        named("reserved_shared_memory_per_block"),
    )  # fmt: skip


def _plain(name: str) -> str:
    """A name without capitals, spaces, and the words that all names have."""
    return re.sub(r"nvidia|geforce|[^a-z0-9]", "", name.lower())


def card_named(name: str) -> Card:
    """The card of a name, as in `--card`, or of an architecture. InputError lists the cards, and what a new one needs.

    >>> card_named("rtx 5090").name, card_named("NVIDIA GeForce RTX 4090").arch, card_named("sm_121a").name
    ('NVIDIA GeForce RTX 5090', 'sm_89', 'NVIDIA GB10')
    """
    if isinstance(name, str):
        if name in CARDS:
            return CARDS[name]
        for card in ALL_CARDS:
            if _plain(name) in map(_plain, (card.name, *card.names)):
                return card
    known = [one for card in ALL_CARDS for one in card.names[:1]]
    alike = {
        _plain(one): one for one in known if re.findall(r"\d+", one) == re.findall(r"\d+", str(name))
    }  # another number is another card
    near = difflib.get_close_matches(_plain(str(name)), alike, 1, 0.75)
    hint = f"; did you mean {alike[near[0]]!r}?" if near else "."
    raise InputError(
        f"card = {shown(name)}: smemsim has no record of this card{hint} It has {', '.join(known)}. For another card, take --arch with its compute "
        "capability (sm_120a) and --multiprocessors and --device-memory with its own numbers"
    )
