"""Right kernels of the golden launches, and faults to plant in them: an edit of the PTX, of a map's arguments or of the
launch.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from places import ROOT
from smemsim import Gpu, Run, TensorMap
from smemsim.evidence import LaunchFile, load_launch_file
from tools.witnesses.launches import compiled_launches

KERNELS = ROOT / "golden" / "sm_90a" / "launches" / "kernels"
DESCRIPTOR = 4611686293305360384  # of gemm_specialized: 128B, SBO 1024, the start or-ed into it
# of the tcgen05 kernel: the descriptors' upper half (128B, SBO 1024), 128 x 128 bf16
HIGH, IDESC = 1073758272, 136316048
RING, TRITON, BLACKWELL = "gemm_specialized", "triton_matmul_host", "triton_tma_bf16_stages3"
PLAIN, CLUSTER, MULTICAST, WARPS = "gemm_bf16", "triton_matmul_cluster", "cluster_multicast_2", "triton_tma_specialized"
PAIR, DENSE, PANELS = "gluon_pair_bf16_256x128x128", "gluon_dense_f16_f32_64x128x128_kn_128_128", "triton_tma_bf16_b_mn"
NONE = "reference_mm_none_128b"  # A without swizzle and MN-major, where LBO counts; descriptors are words of an array


@dataclasses.dataclass(frozen=True)
class Fault:
    """What is wrong, in which kernel; the code that comes first, a text of the line it comes at, and one of the repair
    (regular expressions).
    """

    name: str
    kernel: str
    code: str
    at: str
    edit: Callable[[str], str] = lambda ptx: ptx
    maps: Callable[[int, dict[str, Any]], dict[str, Any]] = lambda n, arguments: arguments
    launch: dict[str, Any] = dataclasses.field(default_factory=dict)
    arrays: Callable[[str, np.ndarray], np.ndarray] = lambda name, array: array
    repair: str = ""


def sub(pattern: str, by: str, count: int = 0) -> Callable[[str], str]:
    def edit(ptx: str) -> str:
        assert re.search(pattern, ptx), pattern
        return re.sub(pattern, by, ptx, count=count)

    return edit


def without_last(pattern: str) -> Callable[[str], str]:
    def edit(ptx: str) -> str:
        last = list(re.finditer(pattern, ptx))[-1]
        return ptx[: last.start()] + ptx[last.end() :]

    return edit


def field(first: int, bits: int, value: int) -> Callable[[str], str]:
    """Another value in the descriptors' constant part."""
    mask = ((1 << bits) - 1) << first
    return sub(str(DESCRIPTOR), str((DESCRIPTOR & ~mask) | value << first))


def only(number: int, **changed: Any) -> Callable[[int, dict[str, Any]], dict[str, Any]]:
    return lambda n, arguments: arguments | changed if n == number else arguments


def high(low: int, bits: int, value: int) -> Callable[[str], str]:
    """Another field in the upper half of the tcgen05 kernel's descriptors."""
    mask = ((1 << bits) - 1) << low
    return sub(rf"mov.b32 \t(%r\d+), {HIGH};", rf"mov.b32 \1, {(HIGH & ~mask) | value << low};")


def idesc(low: int, bits: int, value: int) -> Callable[[str], str]:
    mask = ((1 << bits) - 1) << low
    return sub(str(IDESC), str((IDESC & ~mask) | value << low))


def idesc_bits(mask: int, value: int) -> Callable[[str], str]:
    """The same in any tcgen05 kernel: the field in every instruction descriptor that is a constant moved in front of a
    tcgen05.mma.
    """

    def edit(ptx: str) -> str:
        names = set(re.findall(r"tcgen05\.mma[^;]*\], %rd\d+, %rd\d+, (%r\d+)", ptx))
        assert names
        for name in names:
            ptx = re.sub(rf"(mov.b32 \t{name}), (\d+);", lambda m: f"{m[1]}, {int(m[2]) & ~mask | value};", ptx)
        return ptx

    return edit


def words_of_a(change: Callable[[int], int]) -> Callable[[str, np.ndarray], np.ndarray]:
    """Other descriptors of A in the reference kernel's plan: four, in front of B's four, at the end."""

    def edit(name: str, array: np.ndarray) -> np.ndarray:
        if name == "plan":
            words = array[-16:-8].view(np.uint64)
            words[:] = [change(int(word)) for word in words]
        return array

    return edit


def swapped_strides(word: int) -> int:
    lbo, sbo = word >> 16 & 0x3FFF, word >> 32 & 0x3FFF
    return word & ~(0x3FFF << 16 | 0x3FFF << 32) | sbo << 16 | lbo << 32


# Fewer tiles than were recorded, which are enough for every fault: {argument: value}. Two of C one after the other in
# one CTA; four of K through three stages.
FEWER = {RING: {4: 1}, BLACKWELL: {15: 256}}
ONE_CTA = {RING: {"grid": (1, 1, 1)}}


@functools.cache
def kernel(name: str) -> LaunchFile:
    if (KERNELS / name).exists():
        file = load_launch_file(KERNELS / name)
    else:
        ptx, about = compiled_launches.read()[name]
        file = LaunchFile(name, ptx, about)
    args = [one | {"value": FEWER[name][n]} if n in FEWER.get(name, ()) else one for n, one in enumerate(file.about["args"])]
    return dataclasses.replace(file, about={**file.about, **ONE_CTA.get(name, {}), "args": args})


def launched(name: str, fault: Fault | None = None) -> tuple[Run, str]:
    """Run a kernel, with its fault."""
    file = kernel(name)
    fault = fault or Fault("", name, "", "")
    ptx = fault.edit(file.ptx)
    gpu = Gpu(file.about["arch"])
    arrays = {n: gpu.array(fault.arrays(n, x)) for n, x in file.arrays().items()}
    args: list[Any] = []
    number = 0
    for one in file.about["args"]:
        if "map" in one:
            given = fault.maps(number, dict(one["map"]))
            number += 1
            args.append(
                given["raw"] if "raw" in given else TensorMap.tiled(**given | {"global_address": arrays[given["global_address"]].address})
            )
        else:
            args.append(arrays[one["array"]] if "array" in one else one.get("value"))
    return gpu.run(ptx, dataclasses.replace(file.config(args), **fault.launch)), ptx


MMA, LOAD, EXPECT, WAIT = (
    r"wgmma\.mma_async",
    r"cp\.async\.bulk\.tensor.*global.*mbarrier",
    r"mbarrier\.arrive\.expect_tx",
    r"mbarrier\.try_wait",
)
MMA5 = r"tcgen05\.mma"
STORE = r"cp\.async\.bulk\.tensor.*bulk_group"
# fmt: off
FAULTS = (
    Fault("SBO of half an atom",        RING, "D308", MMA, field(32, 14, 32)),
    Fault("SBO in bytes",               RING, "D301", MMA, field(32, 14, 1024)),
    Fault("layout 64B",                 RING, "D302", MMA, field(62, 2, 2)),
    Fault("layout none",                RING, "D302", MMA, field(62, 2, 0)),
    Fault("base offset",                RING, "D306", MMA, field(49, 3, 1)),
    Fault("K step of A doubled",        RING, "R502", MMA, sub(r"add.s32 \t%r128, %r122, 32;", "add.s32 %r128, %r122, 64;")),
    Fault("K step of B forgotten",      RING, "R502", MMA, sub(r"%r121, 16416;", "%r121, 16384;")),
    Fault("A and B swapped",            RING, "R508", MMA, sub(r"(\}, )(%rd\d+), (%rd\d+)(, p, 1, 1, 0, 0)", r"\1\3, \2\4")),
    Fault("B transposed",               RING, "R505", MMA, sub(r", p, 1, 1, 0, 0", ", p, 1, 1, 0, 1"), repair="imm-trans-b = 0"),
    Fault("each tile's product alone",  RING, "X017", MMA, sub(r"setp.ne.b32 p, %r417, 0;", "setp.ne.b32 p, 0, 0;"), repair="all but the first"),
    Fault("no swizzle in A's map",      RING, "R501", LOAD, maps=only(0, swizzle="none")),
    Fault("A's stride in elements",     RING, "T207", LOAD, maps=only(0, global_strides=[256]), repair=r"global_strides\[0\] = 512"),
    Fault("A's box turned",             RING, "R501", LOAD, maps=only(0, box_dim=[128, 64], swizzle="none"), repair=r"box_dim = \[64, 128\]"),
    Fault("half of B's k in its map",   RING, "T209", LOAD, maps=only(1, global_dim=[128, 256]), repair="global_dim"),
    Fault("half of A's box",            RING, "T210", EXPECT, maps=only(0, box_dim=[64, 64])),
    Fault("64B in A's map",             RING, "T210", EXPECT, maps=only(0, swizzle="64B", box_dim=[32, 128])),
    Fault("half of the bytes expected", RING, "T210", EXPECT, sub(r"32768", "16384")),
    Fault("too many bytes expected",    RING, "T210", EXPECT, sub(r"32768", "32784")),
    Fault("no proxy fence",             RING, "X003", STORE, sub(r"fence.proxy.async[^;]*;", "")),
    Fault("no barrier before a store",  RING, "X008", STORE, without_last(r"bar.sync \t?%r\d+, 128;")),
    Fault("no wgmma.wait_group",        RING, "X005", LOAD, sub(r"wgmma.wait_group.sync.aligned 0;", "")),
    Fault("no wgmma.commit_group",      RING, "X005", LOAD, sub(r"wgmma.commit_group.sync.aligned;", "")),
    Fault("no wgmma.fence",             RING, "X014", MMA, sub(r"wgmma.fence.sync.aligned;", "")),
    Fault("nothing orders the init",    RING, "X008", WAIT, sub(r"bar.sync \t0;", "")),
    Fault("a barrier without init",     RING, "X010", WAIT, sub(r"mbarrier.init.shared::cta.b64 \[%r78\], %r83;", "")),
    Fault("an arrival too many",        RING, "X006", WAIT, sub(r"mov.u32 \t%r85, 2;", "mov.u32 %r85, 3;"), repair=r"mbarrier.init in line \d+ \(now 3\)"),
    Fault("an arrival too few",         RING, "X006", WAIT, sub(r"mov.u32 \t%r85, 2;", "mov.u32 %r85, 1;"), repair="correct the count of mbarrier.init"),
    Fault("nobody frees the stages",    RING, "X006", WAIT, sub(r"mbarrier.arrive.shared::cta.b64 [^;]*;", ""), repair=r"arrive at empty\[0\] \(0x418\) after their reads"),
    Fault("consumers do not wait",      RING, "X004", MMA, sub(r"mbarrier.try_wait.parity.shared::cta.b64 P, \[%r112\], %r425;", "setp.eq.u32 P, 0, 0;")),
    Fault("consumers' parity",          RING, "X004", MMA, sub(r"mov.u32 \t%r425, 0;", "mov.u32 %r425, 1;"), repair="parity 0 in line"),
    Fault("producer's parity",          RING, "X006", WAIT, sub(r"xor.b32  \t(%r\d+), (%r\d+), 1;", r"mov.u32 \1, \2;"), repair="wait for parity 1"),
    Fault("the next stage is read",     RING, "X004", MMA, sub(r"shl.b32 \t%r119, %r424, 15;", "add.u32 %r119, %r424, 1; shl.b32 %r119, %r119, 15;")),
    Fault("A from the next stage",      RING, "X004", MMA, sub(r"add.s32 \t%r122, %r121, %r9;", "add.s32 %r122, %r121, %r9; add.s32 %r122, %r122, 32768;")),
    Fault("stores not committed",       RING, "X005", r"stmatrix", sub(r"cp.async.bulk.commit_group;", "")),
    Fault("stores not waited for",      RING, "X005", r"stmatrix", sub(r"cp.async.bulk.wait_group.read 0;", "")),
    Fault("a part is never written",    RING, "R507", STORE, sub(r"stmatrix.sync.aligned.m8n8.x4.shared.b16 \[%r\d+\][^;]*;", "", 1)),
    Fault("too little shared memory",   RING, "A107", LOAD, launch={"shared_bytes": 65536}),
    Fault("half of one phase expected", TRITON, "T210", EXPECT, sub(r"\[%r5\], 24576", "[%r5], 12288")),
    Fault("the loop expects too few",   TRITON, "T210", EXPECT, sub(r"\[%r30\], 24576", "[%r30], 16384")),
    Fault("no swizzle in B's map",      TRITON, "R501", LOAD, maps=only(1, swizzle="none")),
    Fault("no proxy fence",             TRITON, "X003", STORE, sub(r"fence.proxy.async.shared::cta;", "")),
    Fault("three groups in flight",     TRITON, "X005", LOAD, sub(r"wgmma.wait_group.sync.aligned 1", "wgmma.wait_group.sync.aligned 3")),
    Fault("nobody waits for loads",     TRITON, "X004", MMA, sub(r"mbarrier.try_wait.parity.shared::cta.b64 complete, \[%r25\], %r117;", "setp.eq.u32 complete, 0, 0;")),
    Fault("the wrong parity",           TRITON, "X006", WAIT, sub(r"complete, \[%r25\], %r117;", "complete, [%r25], 1;")),
    Fault("two arrivals expected",      TRITON, "X006", WAIT, sub(r"\[%r5\], 1;", "[%r5], 2;", 1)),
    Fault("a barrier without init",     TRITON, "X010", EXPECT, sub(r"@%p2 mbarrier.init.shared::cta.b64 \[%r6\], 1;", "")),
    Fault("two loads into one stage",   TRITON, "X004", MMA, sub(r"%r10, %r8, 16384;", "%r10, %r8, 0;")),
    Fault("B off 128 bytes",            TRITON, "A101", LOAD, sub(r"%r9, %r8, 49152;", "%r9, %r8, 49216;")),
    Fault("B stays at k = 0",           TRITON, "R508", LOAD, sub(r"\[%rd19, \{%r32, %r62\}\]", "[%rd19, {%r117, %r62}]")),
    Fault("a map of zeros",             TRITON, "T220", LOAD, maps=only(0, raw=bytes(128))),
    Fault("a map off 64 bytes",         TRITON, "A104", LOAD, sub(r"cvta.param.u64 \t%rd18, %rd3;", "cvta.param.u64 %rd18, %rd3; add.u64 %rd18, %rd18, 16;")),
    Fault("LBO wrong",                  NONE, "D308", MMA, arrays=words_of_a(lambda word: word + (8 << 16))),
    Fault("LBO and SBO swapped",        NONE, "D309", MMA, arrays=words_of_a(swapped_strides)),
    Fault("LBO in bytes",               NONE, "D301", MMA, arrays=words_of_a(lambda word: word & ~(0x3FFF << 16) | 128 << 16)),
    Fault("SBO of half an atom",        BLACKWELL, "D308", MMA5, high(0, 14, 32)),
    Fault("SBO in bytes",               BLACKWELL, "D301", MMA5, high(0, 14, 1024)),
    Fault("layout 64B",                 BLACKWELL, "D302", MMA5, high(29, 3, 4)),
    Fault("layout none",                BLACKWELL, "D302", MMA5, high(29, 3, 0)),
    Fault("base offset",                BLACKWELL, "D306", MMA5, high(17, 3, 1)),
    Fault("base offset 2",              BLACKWELL, "D306", MMA5, high(17, 3, 2), repair=r"^base_offset 2 must be 0: 0x[0-9a-f]+; or in a Triton kernel"),
    Fault("K step of A doubled",        BLACKWELL, "R502", MMA5, sub(r"add.s32 \t%r39, %r36, 2;", "add.s32 %r39, %r36, 4;")),
    Fault("K step of B forgotten",      BLACKWELL, "R502", MMA5, sub(r"add.s32 \t%r40, %r37, 2;", "add.s32 %r40, %r37, 0;")),
    Fault("N = 64",                     BLACKWELL, "I603", MMA5, idesc(17, 6, 8)),
    Fault("M = 64",                     BLACKWELL, "I603", MMA5, idesc(24, 5, 4)),
    Fault("A is f16",                   BLACKWELL, "I603", MMA5, idesc(7, 3, 0)),
    Fault("A transposed",               BLACKWELL, "R505", MMA5, idesc(15, 1, 1), repair="instruction descriptor 0x08208490 must be 0x08200490"),
    Fault("B transposed",               BLACKWELL, "R505", MMA5, idesc(16, 1, 1)),
    Fault("each tile's product alone",  BLACKWELL, "X017", MMA5, sub(r"%r58, %p47;", "%r58, !%p47;"), repair="all but the first"),
    Fault("the kind is f8f6f4",         BLACKWELL, "I603", MMA5, sub("kind::f16", "kind::f8f6f4")),
    Fault("the kind is tf32",           BLACKWELL, "I602", MMA5, sub("kind::f16", "kind::tf32")),
    Fault("nothing allocated",          BLACKWELL, "X009", r"tcgen05\.st", sub(r"@%p1 tcgen05.alloc[^;]*;", "")),
    Fault("half of it allocated",       BLACKWELL, "X009", r"tcgen05\.st", sub(r"(tcgen05.alloc[^;]*), 128;", r"\1, 64;")),
    Fault("100 columns",                BLACKWELL, "X009", r"tcgen05\.alloc", sub(r"(tcgen05.alloc[^;]*), 128;", r"\1, 100;")),
    Fault("nothing given back",         BLACKWELL, "X009", r"tcgen05\.alloc", sub(r"@%p1 tcgen05.dealloc[^;]*;", "")),
    Fault("D at other columns",         BLACKWELL, "X009", MMA5, sub(r"\[ %r217 \+ 0 \], %rd6", "[ %r217 + 64 ], %rd6")),
    Fault("nothing committed",          BLACKWELL, "X006", WAIT, sub(r"@%p48 tcgen05.commit[^;]*;", "")),
    Fault("D not waited for",           BLACKWELL, "X012", r"tcgen05\.ld", sub(r"mbarrier.try_wait.parity.shared::cta.b64 complete, \[%r447\], %r448;", "setp.eq.u32 complete, 0, 0;")),
    Fault("zeros not waited for",       BLACKWELL, "X012", MMA5, sub(r"tcgen05.wait::st.sync.aligned;", "")),
    Fault("tiles not waited for",       BLACKWELL, "X004", MMA5, sub(r"mbarrier.try_wait.parity.shared::cta.b64 complete, \[%r11\], %r448;", "setp.eq.u32 complete, 0, 0;")),
    Fault("stages not waited for",      BLACKWELL, "X012", r"tcgen05\.ld", sub(r"mbarrier.try_wait.parity.shared::cta.b64 complete, \[%r440\], %r439;", "setp.eq.u32 complete, 0, 0;")),
    Fault("half of the bytes expected", BLACKWELL, "T210", EXPECT, sub("32768", "16384")),
    Fault("no swizzle in A's map",      BLACKWELL, "R501", LOAD, maps=only(0, swizzle="none")),
    Fault("D not set to zero",          PLAIN, "R507", MMA, lambda ptx: sub(r"mov\.f32 \t%f(6[7-9]\d|70\d), [^;]*;", "")(sub(r"p, %r51, 0;", "p, %r51, -1;")(ptx)), repair="scale-d false"),
    Fault("the sum begins anew",        PLAIN, "X017", MMA, sub(r"setp.ne.b32 p, %r91, 0;", "setp.ne.b32 p, %r91, %r91;")),
    Fault("A begins 32 bytes late",     PLAIN, "R508", MMA, sub(r"(setp.ne.b32 p, %r\d+, 0; )(wgmma[^;]*\}, )(%rd\d+)(, %rd\d+, p)", r".reg .b64 late; \1add.u64 late, \3, 2; \2late\4")),
    Fault("A and B swapped once",       CLUSTER, "R508", MMA, sub(r"(\}, )(%rd\d+), (%rd\d+)(, %p27)", r"\1\3, \2\4", 1)),
    Fault("B transposed once",          CLUSTER, "R505", MMA, sub(r"(%p27, 1, 1, 0), 0;", r"\1, 1;", 1)),
    Fault("B transposed at the end",    CLUSTER, "R505", MMA, sub(r"(%rd14, %rd15, %p27, 1, 1, 0), 0;", r"\1, 1;"), repair="imm-trans-b = 0 at line"),
    Fault("A and B swapped at the end", CLUSTER, "R508", MMA, sub(r"%rd14, %rd15, %p27", "%rd15, %rd14, %p27"), repair="swap"),
    Fault("B begins a row late",        CLUSTER, "R508", MMA, sub(r"(wgmma[^;]*\}, %rd\d+, )(%rd\d+)(, %p27[^;]*;)", r"{ .reg .b64 late; add.u64 late, \2, 8; \1late\3 }"), repair="start"),
    Fault("A's rows overlap",           PLAIN, "T207", LOAD, maps=only(0, global_strides=[288]), repair=r"global_strides\[0\] = 384"),
    Fault("consumers' parity",          WARPS, "X004", MMA5, sub(r"complete, \[%r29\], %r30;", "complete, [%r29], 1;")),
    Fault("CTAs end on their own",      MULTICAST, "X008", r"mbarrier\.arrive.*shared::cluster", without_last(r"barrier.cluster.arrive[^;]*;\s*barrier.cluster.wait[^;]*;")),
    Fault("the sum begins anew",        PAIR, "X017", MMA5, sub(r"%p24, %r204, 0;", "%p24, %r204, %r204;")),
    Fault("a whole warp loads",         PAIR, "X016", LOAD, sub(r"@%p17 (?=cp.async)", "")),
    Fault("A from a tile further on",   PAIR, "T209", LOAD, sub(r"(@%p17 cp[^;]*\{)%r28([^;]*;)", r"{ .reg .b32 far; add.s32 far, %r28, 64; \1far\2 }")),
    Fault("N = 64",                     PAIR, "I603", MMA5, idesc_bits(63 << 17, 8 << 17)),
    Fault("both bring A's first rows",  PAIR, "R508", LOAD, sub(r"shl\.b32 \t%r29, %r23, 7;", "mov.b32 %r29, 0;"), repair="row 128 in the second CTA"),
    Fault("both bring B's first rows",  PAIR, "R508", LOAD, sub(r"shl\.b32 \t%r31, %r23, 6;", "mov.b32 %r31, 0;"), repair="row 64 in the second CTA"),
    Fault("the pair's rows overlap",    PAIR, "R508", LOAD, sub(r"shl\.b32 \t%r29, %r23, 7;", "shl.b32 %r29, %r23, 6;"), repair="row 128 in the second CTA"),
    Fault("nobody expects the bytes",   WARPS, "X006", WAIT, sub(r"@%p4 mbarrier.arrive.expect_tx[^;]*;", "")),
    Fault("B transposed",               DENSE, "R505", MMA5, idesc_bits(1 << 16, 0)),
    Fault("N leaves out a panel",       PANELS, "I603", MMA5, idesc_bits(63 << 17, 16 << 17)),
    Fault("no proxy fence",             BLACKWELL, "X003", STORE, sub(r"fence.proxy.async.shared::cta;", "")),
)
# fmt: on
