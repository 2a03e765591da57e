"""`cohorts`: programs of several CTAs, run with cohorts and without. Results and findings must be equal.

Half of the cases are generated. Their CTAs copy with cp.async, bulk and tensor copies and mbarriers, also what threads
of the launch write. They multiply with wgmma or tcgen05 (also in pairs), and store with stmatrix and bulk stores. They
pass data on through flags, atomics, distributed shared memory and st.async. At any step some CTAs may deviate: by their
index, by loaded data, or by another offset.

The other half are recorded and compiled kernels (`golden/` of the current folder, if it is there) with one instruction
changed.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import itertools
import json
import math
import os
import pathlib
import random
import re
import tarfile
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from smemsim.base import store
from smemsim.base.errors import SmemsimError
from smemsim.base.garbage import seldom_collected
from smemsim.campaign.space import Case, ChunkResult, Space, drawn, one_by_one, shrunk
from smemsim.core.words.tensor_map import TensorMap
from smemsim.diagnosis.gpu import Gpu
from smemsim.run.engine.launch import COHORTS, LaunchConfig, RunOptions
from smemsim.run.jit.objects import LEVEL
from smemsim.run.jit.tier import TIERS, begin_again

__all__ = ["SPACE", "Program", "difference", "draw", "mutated", "outcome", "recorded_kernels", "simpler"]


CHUNK_CASES = 8
LIMIT = 6_000  # blocks of instructions: a program that hangs ends soon
THREADS = 128  # a warpgroup
TENSOR_SHARE = 0.5  # of generated programs, those for sm_100a
STAGE = 2048  # bytes of a stage
STAGES = 3
WORDS = 4096  # of 32 bits that a CTA has in the arrays of inputs and outputs
GOLDEN = pathlib.Path("golden")

_TILE = """@!%first bra {l}; mbarrier.arrive.expect_tx.shared.b64 _, [%bars+{b}], 1024; mov.u32 %x, {w}; shr.u32 %x, %x, 2; {{at}} mov.b64 %n, map;
cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%sm+{s}], [%n, {{%x}}], [%bars+{b}]; {l}:"""

# Steps of all threads of a CTA. {s} and {t} are stages (offsets in shared memory), {b} an mbarrier, {w} an offset of
# words in the CTA's part of an array, {k} a small number.
_SINGLE: dict[str, str] = {
    "store": "st.shared.b32 [%own+{s}], %acc;",
    "load": "ld.shared.b32 %x, [%near+{s}]; add.u32 %acc, %acc, %x;",
    "vector": "ld.shared.v4.b32 {{%x, %y, %z, %w}}, [%wide+{s}]; add.u32 %acc, %acc, %x; xor.b32 %acc, %acc, %w;",
    "meet": "bar.sync 0;",
    "half": "bar.sync 1, 128;",
    "fence": "fence.proxy.async.shared::cta;",
    "bulk": """@!%first bra {l}; mbarrier.arrive.expect_tx.shared.b64 _, [%bars+{b}], 1024;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sm+{s}], [%in+{w}], 1024, [%bars+{b}]; {l}:""",
    "wait": """{l}: mbarrier.try_wait.parity.shared.b64 %p, [%bars+{b}], {k}; @!%p bra {l};""",
    "out": """@!%first bra {l}; cp.async.bulk.global.shared::cta.bulk_group [%out+{w}], [%sm+{s}], 1024; cp.async.bulk.commit_group; {l}:""",
    "sum": """@!%first bra {l}; cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out+{w}], [%sm+{s}], 512; cp.async.bulk.commit_group; {l}:""",
    "drain": "cp.async.bulk.wait_group.read {k};",
    "flush": "cp.async.bulk.wait_group 0;",
    "ampere": "cp.async.ca.shared.global [%wide+{s}], [%mine+{w}], 16; cp.async.commit_group;",
    "settle": "cp.async.wait_group {k};",
    "matrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%row+{s}], {{%acc}};",
    "fragment": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%x}}, [%row+{s}]; add.u32 %acc, %acc, %x;",
    "multiply": """wgmma.fence.sync.aligned; add.u64 %da, %desc, {d}; add.u64 %db, %desc, {e};
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %da, %db, 1, 1, 1, 0, 0; wgmma.commit_group.sync.aligned;""",
    "multiplied": "wgmma.wait_group.sync.aligned {k};",
    "product": "mov.b32 %x, %f1; add.u32 %acc, %acc, %x;",
    "flag": "@%first st.release.gpu.global.u32 [%flags+{f}], 1;",
    "look": "ld.acquire.gpu.global.u32 %x, [%flags+{f}]; setp.ne.u32 %p, %x, 0; @!%p bra {l}; ld.global.u32 %x, [%other+{w}]; add.u32 %acc, %acc, %x; {l}:",
    "vouch": """setp.ne.u32 %q, %cta, 0; @%q bra {l}; W{l}: mbarrier.try_wait.parity.shared.b64 %p, [%bars+{b}], {k}; @!%p bra W{l};
@%first st.release.gpu.global.u32 [%flags+{f}], 1; {l}:""",
    "trust": """setp.eq.u32 %q, %cta, 0; @%q bra {l}; W{l}: ld.acquire.gpu.global.u32 %x, [%flags+{f}]; setp.ne.u32 %p, %x, 0; @!%p bra W{l}; {l}:""",
    "write": "st.global.u32 [%result+{w}], %acc;",
    "read": "ld.global.u32 %x, [%mine+{w}]; add.u32 %acc, %acc, %x;",
    "count": "atom.global.add.u32 %x, [%flags+{f}], 1;",
    "reduce": "red.global.add.u32 [%flags+{f}], 1;",
    "arrive": "mbarrier.arrive.shared.b64 %state, [%bars+{b}];",
    # copies of what threads of the launch write to the array of inputs: of the own CTA, and of CTA 0
    "tile": _TILE.replace("{{at}}", f"mad.lo.u32 %x, %cta, {WORDS}, %x;"),
    "afar": _TILE.replace("{{at}}", ""),
    "near": """@!%first bra {l}; mbarrier.arrive.expect_tx.shared.b64 _, [%bars+{b}], 1024; mul.wide.u32 %n, %cta, 16384; sub.u64 %n, %in, %n;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%sm+{s}], [%n+{w}], 1024, [%bars+{b}]; {l}:""",
    "shed": "st.global.v4.b32 [%mine+{w}], {{%acc, %acc, %acc, %acc}};",
    "seize": "mul.wide.u32 %n, %cta, 16384; sub.u64 %n, %mine, %n; st.global.v4.b32 [%n+{w}], {{%acc, %acc, %acc, %acc}};",
    "cross": "fence.proxy.async;",
}  # fmt: skip
_CLUSTER: dict[str, str] = {
    "cluster": "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;",
    "remote": "st.shared::cluster.b32 [%peer+{s}], %acc;",
    "fetch": "ld.shared::cluster.b32 %x, [%peer+{s}]; add.u32 %acc, %acc, %x;",
    "tell": "@%first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%peerbars+{b}];",
    "send": """@!%first bra {l}; st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%peer+{s}], %acc, [%peerbars+{b}]; {l}:""",
    "expect": "@%first mbarrier.arrive.expect_tx.shared.b64 _, [%bars+{b}], 4;",
    "spread": """@!%first bra {l}; mbarrier.arrive.expect_tx.shared.b64 _, [%bars+{b}], 1024; setp.ne.u32 %p, %rank, 0; @%p bra {l};
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%sm+{s}], [%in+{w}], 1024, [%bars+{b}], 3; {l}:""",
}  # fmt: skip
# Steps of sm_100a. {g} are the CTAs of a pair. {c} is a column of tensor memory. %leader is the thread that issues,
# %tm the address of the columns, %tl that of a warp's lanes.
_TENSOR: dict[str, str] = {
    "mma": """@!%leader bra {l}; add.u64 %da, %desc, {d}; add.u64 %db, %desc, {e}; tcgen05.mma.cta_group::{g}.kind::f16 [%tm+{c}], %da, %db, %idesc, 0; {l}:""",
    "adds": """@!%leader bra {l}; add.u64 %da, %desc, {d}; add.u64 %db, %desc, {e}; setp.ne.u32 %p, {k}, 9;
tcgen05.mma.cta_group::{g}.kind::f16 [%tm+{c}], %da, %db, %idesc, %p; {l}:""",
    "copies": """@!%leader bra {l}; sub.u64 %da, %desc, 0x0000000800000000; add.u64 %da, %da, {d}; tcgen05.cp.cta_group::{g}.128x128b [%tm+{c}], %da; {l}:""",
    "commit": """@!%leader bra {l}; {commit}; {l}:""",
    "after": "tcgen05.fence::after_thread_sync;",
    "before": "tcgen05.fence::before_thread_sync;",
    "loads": "tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%x}}, [%tl+{c}]; tcgen05.wait::ld.sync.aligned; add.u32 %acc, %acc, %x;",
    "begins": "tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%x}}, [%tl+{c}];",
    "loaded": "tcgen05.wait::ld.sync.aligned; add.u32 %acc, %acc, %x;",
    "fills": "tcgen05.st.sync.aligned.32x32b.x1.b32 [%tl+{c}], {{%acc}};",
    "filled": "tcgen05.wait::st.sync.aligned;",
}  # fmt: skip
_COMMITS = {
    1: "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bars+{b}]",
    2: "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%bars+{b}], 3",
}
_COLUMNS = 32  # of tensor memory, of each CTA
_WGMMA = {"multiply", "multiplied", "product"}
_PLACE = re.compile(r"%(sm|own|wide|row|bars|in|tm|tl)(?=\+)")
_HANGS = {"wait", "half", "expect", "tell", "send", "vouch", "trust", "seize"}  # steps that rarely fit the others
# The same of copies whose source threads write: right ones, and those that lack a wait or a fence.
_SOURCES = (
    "shed cross* meet* tile* wait", "shed cross* meet* bulk* wait vector", "shed meet tile* wait", "tile wait* meet* shed", "tile meet shed* wait", "tile* shed wait", "bulk meet* shed* wait",
    "ampere settle* meet* shed", "ampere meet shed* settle", "shed* cross* flag* trust* afar wait", "shed flag trust near* wait", "shed cross meet flag trust afar* wait vector",
    "tile vouch trust seize*", "tile* flag trust seize wait", "bulk vouch trust* meet seize*", "tile wait tile* meet shed", "tile* wait shed* cross* meet* tile",
)  # fmt: skip
# Steps that belong together, on one stage and one mbarrier, and are right if no CTA deviates; some CTAs may deviate in
# those with a star.
_PATTERNS = (
    "store meet* load", "store meet* load meet* store", "bulk wait* load", "bulk* wait vector meet*", "store* fence* meet* out drain* meet* store", "store fence* meet* out flush*",
    "ampere* settle* meet* vector", "matrix meet* fragment", "store fence* meet* multiply* multiplied* meet* store", "bulk wait* multiply multiplied* meet*", "write meet* flag* meet* look",
    "bulk vouch trust vector meet", "bulk vouch trust wait* vector meet", "count* reduce*", "bulk wait* out* drain* meet*", "vector meet* read* write*", "store meet* load meet* fence* bulk* wait* load",
    "store meet multiply multiplied* product", "store fence meet multiply multiplied product* multiply multiplied* product*", "remote* cluster* load", "cluster* fetch cluster*", "cluster* expect send* wait* load", "cluster* spread* wait* load cluster*", "store cluster* fetch cluster* store",
    "store fence* meet* mma commit wait* after loads*", "store fence meet mma* adds* commit* wait* after loads* before meet* after mma", "bulk vouch trust meet mma commit flush",
    "fills filled* before* meet* after* loads*", "fills filled before meet after adds commit wait* after* loads*", "store fence meet copies* commit wait* after loads*",
    "store fence meet mma commit vouch trust after loads*", "store fence meet mma commit wait after begins* meet* loaded* fills filled", "bulk wait mma* commit* meet*", *_SOURCES,
)  # fmt: skip
_AFTER = "bar.sync 0; fence.proxy.async.shared::cta; cp.async.bulk.wait_group 0; cp.async.wait_all; bar.sync 0;"
_DEVIATIONS = ("setp.ne.u32 %q, %cta, {c};", "setp.eq.u32 %q, %cta, {c};", "and.b32 %x, %acc, 1; setp.eq.u32 %q, %x, 0;",
               "ld.global.u32 %x, [%in]; and.b32 %x, %x, {c}; setp.eq.u32 %q, %x, 0;", "setp.gt.u32 %q, %cta, {c};")  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Program:
    """A list of steps. Some CTAs may leave a step out, or use another address.

    In CTA `other` the address registers whose names end in `o` differ from those of the other CTAs. `is_compiled`:
    blocks are compiled at once.
    """

    steps: tuple[str, ...]
    ctas: int
    cluster: int
    seed: int
    other: int = 0
    is_compiled: bool = False
    pair: int = 0  # how many CTAs share an instruction of tcgen05; 0: the program is for sm_90a

    def text(self) -> str:
        """The PTX."""
        cluster = """mov.u32 %rank, %cluster_ctarank; xor.b32 %x, %rank, 1; mapa.shared::cluster.u32 %peer, %own, %x; mapa.shared::cluster.u32 %peerbars, %bars, %x;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"""
        leave = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;"
        body, arch, is_tensor = "\n".join(self.steps), self.arch, self.pair > 0
        fill = " ".join(f"st.shared.v4.b32 [%wide+{at}], {{%acc, %acc, %acc, %acc}};" for at in range(0, STAGE * STAGES, 16 * THREADS))
        return f""".version 8.6
.target {arch}
.address_size 64
.visible .entry cohorts(.param .align 64 .b8 map[128], .param .u64 in, .param .u64 out, .param .u64 flags) {{
.reg .pred %p, %q, %first; .reg .b32 %t, %x, %y, %z, %w, %acc, %own, %near, %wide, %row, %sm, %bars, %rank, %peer, %peerbars, %cta, %smo, %owno, %wideo, %rowo, %barso, %bytes, %tm, %tl, %tmo, %tlo, %idesc;
.reg .pred %leader; .reg .b64 %in, %ino, %out, %flags, %mine, %result, %other, %n, %desc, %da, %db, %state; .reg .f32 %f<4>;
.shared .align 1024 .b8 sm[{STAGE * STAGES}]; .shared .align 8 .b64 bars[4]; .shared .b32 tensor;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u64 %flags, [flags]; mov.u32 %t, %tid.x; mov.u32 %sm, sm; mov.u32 %bars, bars;
setp.eq.u32 %first, %t, 0; shl.b32 %x, %t, 2; add.u32 %own, %sm, %x; xor.b32 %x, %x, 128; add.u32 %near, %sm, %x; shl.b32 %x, %t, 4; add.u32 %wide, %sm, %x; add.u32 %row, %sm, %x;
mov.u32 %cta, %ctaid.x; mul.wide.u32 %n, %cta, {4 * WORDS}; mov.b64 %other, %out; add.u64 %in, %in, %n; add.u64 %out, %out, %n; mul.wide.u32 %n, %t, 16;
add.u64 %mine, %in, %n; mul.wide.u32 %n, %t, 4; add.u64 %result, %out, %n; add.u64 %other, %other, %n; mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
bfe.u32 %x, %sm, 4, 14; cvt.u64.u32 %desc, %x; or.b64 %desc, %desc, {"0x0000401000080000" if is_tensor else "0x0000001000080000"}; ld.global.u32 %acc, [%mine];
setp.eq.u32 %q, %cta, {self.other}; selp.b32 %x, {STAGE}, 0, %q; add.u32 %smo, %sm, %x; add.u32 %owno, %own, %x; add.u32 %wideo, %wide, %x; add.u32 %rowo, %row, %x;
selp.b32 %bytes, 512, 1024, %q; selp.b64 %ino, %other, %in, %q; selp.b32 %x, 8, 0, %q; add.u32 %barso, %bars, %x;
@!%first bra BEGUN; mbarrier.init.shared.b64 [%bars], 1; mbarrier.init.shared.b64 [%bars+8], 1; mbarrier.init.shared.b64 [%bars+16], 1; mbarrier.init.shared.b64 [%bars+24], 128;
fence.mbarrier_init.release.cluster; BEGUN: {fill} fence.proxy.async.shared::cta; bar.sync 0;
{cluster if self.cluster > 1 else ""}
{self._tensor_begins() if is_tensor else ""}
{body}
{leave if self.cluster > 1 else ""}
{self._tensor_ends() if is_tensor else ""}
bar.sync 0; st.global.u32 [%result+{4 * (WORDS - THREADS)}], %acc; mov.b32 %x, %f0; st.global.u32 [%result+{4 * (WORDS - 2 * THREADS)}], %x;
ret;
}}
"""

    @property
    def arch(self) -> str:
        """The architecture."""
        return "sm_100a" if self.pair else "sm_90a"

    def _tensor_begins(self) -> str:
        """The first warp of each CTA allocates columns of tensor memory, which get zeros. A pair multiplies M = 128 and
        N = 16, a CTA by itself M = 64 and N = 8.
        """
        word = 1 << 4 | self.pair << 17 | 4 * self.pair << 24
        leader = "setp.eq.and.u32 %leader, %rank, 0, %first;" if self.pair > 1 else "setp.eq.u32 %leader, %t, 0;"
        return f"""{leader} mov.u32 %idesc, {word}; setp.gt.u32 %p, %t, 31; @%p bra ALLOCATED;
tcgen05.alloc.cta_group::{self.pair}.sync.aligned.shared::cta.b32 [tensor], {_COLUMNS}; tcgen05.relinquish_alloc_permit.cta_group::{self.pair}.sync.aligned;
ALLOCATED: tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; ld.shared.u32 %tm, [tensor]; shl.b32 %x, %t, 16; and.b32 %x, %x, 0x600000;
add.u32 %tl, %tm, %x; mov.u32 %x, 0; tcgen05.st.sync.aligned.32x32b.x{_COLUMNS}.b32 [%tl], {{{", ".join(["%x"] * _COLUMNS)}}};
tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; setp.eq.u32 %q, %cta, {self.other}; selp.b32 %x, 16, 0, %q; add.u32 %tmo, %tm, %x; add.u32 %tlo, %tl, %x;"""

    def _tensor_ends(self) -> str:
        """It gives the columns back."""
        return f"""tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; setp.gt.u32 %p, %t, 31; @%p bra FREED;
tcgen05.dealloc.cta_group::{self.pair}.sync.aligned.b32 %tm, {_COLUMNS}; FREED:"""

    def _map(self, inputs: Any) -> TensorMap:
        """The tensor map of the array of inputs, in boxes of 1024 bytes."""
        return TensorMap.tiled(data_type="u32", global_address=inputs.address, global_dim=(self.ctas * WORDS,), global_strides=(), box_dim=(256,), arch=self.arch)  # fmt: skip

    def outcome(self, *, cohorts: bool) -> Any:
        """Its results, and the findings; or the sentence with which it is refused."""
        gpu, numbers = Gpu(self.arch), np.random.default_rng(self.seed)
        inputs = numbers.integers(0, 64, self.ctas * WORDS).astype(np.uint32)
        arrays = [gpu.array(inputs), gpu.array(np.zeros(self.ctas * WORDS, np.uint32)), gpu.array(np.zeros(64, np.uint32))]
        config = LaunchConfig(grid=(self.ctas,), block=(THREADS,), cluster=(self.cluster,), args=[self._map(arrays[0]), *arrays])
        return outcome(gpu, self.text(), config, arrays, cohorts=cohorts, tiers="compiled" if self.is_compiled else "")


@contextlib.contextmanager
def _set(**wanted: str) -> Iterator[None]:
    """Environment variables, for a time; "" for one that is not set."""
    before = {name: os.environ.get(name, "") for name in wanted}
    try:
        _put(wanted)
        yield
    finally:
        _put(before)


def _put(wanted: dict[str, str]) -> None:
    for name, value in wanted.items():
        os.environ.pop(name, None)
        if value:
            os.environ[name] = value


def outcome(
    gpu: Gpu, ptx: str, config: LaunchConfig, arrays: list[Any], *, cohorts: bool, tiers: str = "", schedule: int | str | None = None
) -> Any:
    """The results of a launch in arrays, its status, its findings and its remarks; or the sentence with which it is
    refused.
    """
    options = RunOptions(limit=LIMIT, workers=1, progress=False, schedule=schedule)
    with _set(**{COHORTS: "" if cohorts else "off", TIERS: tiers, LEVEL: "0", store.MOST: "0"}):
        try:
            kernel = gpu.kernel(ptx)
            begin_again(kernel.program)
            run = gpu.run(kernel, config, options)
        except SmemsimError as e:
            return f"{type(e).__name__}: {e}"
    found, remarks = (
        tuple((f.code, f.line, str(f.severity), f.message, f.repair, f.ctas) for f in some) for some in (run.findings, run.remarks)
    )
    return tuple(array.numpy().tobytes() for array in arrays), run.launch.status, found, remarks


def difference(on: Any, off: Any, ways: tuple[str, str] = ("as one", "one by one")) -> str:
    """In what two outcomes differ, in a sentence; "" if they do not. `ways` are the names of both."""
    if on == off:
        return ""
    if isinstance(on, str) or isinstance(off, str):
        return "; ".join(f"{way}: {some if isinstance(some, str) else 'runs'}" for way, some in zip(ways, (on, off), strict=True))
    if on[0] != off[0]:
        return "other bytes in an array"
    if on[1] != off[1]:
        return f"status {on[1]} {ways[0]}, {off[1]} {ways[1]}"
    found = [[*findings, *remarks] for _, _, findings, remarks in (on, off)]
    only = [f"{side}: {[f for f in some if f not in rest][:3]}" for side, some, rest in ((ways[0], *found), (ways[1], *reversed(found)))]
    return "; ".join(only) + (" (the same findings in another order)" if sorted(found[0]) == sorted(found[1]) else "")


def draw(rng: random.Random) -> Program:
    """A program."""
    cluster = rng.choice((1, 1, 1, 2))
    ctas = cluster * rng.randint(2 if cluster == 1 else 1, 4)
    pair = rng.choice((1, cluster)) if rng.random() < TENSOR_SHARE else 0
    known = _SINGLE | (_CLUSTER if cluster > 1 else {}) | (_TENSOR if pair else {})
    known = {name: form for name, form in known.items() if not (pair and name in _WGMMA)}
    fitting = [pattern for pattern in _PATTERNS if all(name.strip("*") in known for name in pattern.split())]
    steps: list[str] = []
    of_tensor = [pattern for pattern in fitting if not _TENSOR.keys().isdisjoint(pattern.replace("*", "").split())]
    patterns = [rng.choice(of_tensor if pair and rng.random() < 0.6 else fitting).split() for _ in range(rng.randint(1, 4))]
    starred = [(n, k) for n, pattern in enumerate(patterns) for k, name in enumerate(pattern) if name.endswith("*")]
    deviating = set(rng.sample(starred, min(len(starred), rng.choice((0, 1, 1, 1, 2)))))
    for n, pattern in enumerate(patterns):
        chosen = {
            "s": STAGE * rng.randrange(STAGES),
            "b": 8 * n % 24,
            "k": n // 3,
            "w": 1024 * rng.randrange(4),
            "f": 4 * (3 + n),
            "g": pair,
            "c": 8 * rng.randrange(2),
        }
        for k, name in enumerate(pattern):
            more = chosen if name.strip("*") not in ("settle", "drain", "multiplied") else chosen | {"k": 0}
            steps.append(_step(rng, len(steps), known[name.strip("*")], more, is_other=(n, k) in deviating))
        if rng.random() < 0.15:
            steps.append(_step(rng, len(steps), known[rng.choice(sorted(known.keys() - _HANGS))], {"g": pair}, is_other=rng.random() < 0.3))
        steps.append(_AFTER)
    return Program(tuple(steps), ctas, cluster, rng.randrange(1 << 30), rng.randrange(ctas), rng.random() < 0.5, pair)


def _step(rng: random.Random, number: int, form: str, chosen: dict[str, int], *, is_other: bool) -> str:
    """One step, with what is chosen already. `is_other`: some CTAs leave it out, or do it elsewhere."""
    values: dict[str, Any] = {
        "s": STAGE * rng.randrange(STAGES), "b": 8 * rng.randrange(3), "w": 1024 * rng.randrange(4), "k": rng.randrange(2), "f": 4 * rng.randrange(3),
        "l": f"S{number}", "d": STAGE // 16 * rng.randrange(STAGES), "e": STAGE // 16 * rng.randrange(STAGES), "c": rng.randrange(4), **chosen,
    }  # fmt: skip
    step = form.format(**values, commit=_COMMITS[max(values.get("g", 1), 1)].format(**values))
    if not is_other:
        return step
    if rng.random() < 0.4 and (elsewhere := _PLACE.sub(lambda found: f"%{found[1]}o" if rng.random() < 0.7 else found[0], step)) != step:
        return elsewhere
    return step if ".sync.aligned" in step else f"{rng.choice(_DEVIATIONS).format(**values)} @%q bra D{number}; {step} D{number}:"


def simpler(program: Program) -> Iterator[Program]:
    """Fewer steps, and fewer CTAs."""
    for n in range(len(program.steps)):
        yield dataclasses.replace(program, steps=program.steps[:n] + program.steps[n + 1 :])
    if program.ctas > 2 * program.cluster:
        yield dataclasses.replace(program, ctas=program.ctas - program.cluster)


# ---- recorded kernels with one instruction changed

_MATRIX = re.compile(r"wgmma\.mma_async|tcgen05\.mma|mma\.sync")
_LINE = re.compile(r"^\s*(?:@!?%\w+\s+)?(\w[\w.:]*)\s*([^;{}]*);\s*$")
_NUMBER = re.compile(r"(?<![\w%.])(\d+)(?![\w.])")


@functools.cache
def recorded_kernels(folder: str = str(GOLDEN)) -> tuple[pathlib.Path, ...]:
    """The launch files of recorded and of compiled kernels with matrix instructions and several CTAs, below a folder.
    Those in archives are unpacked, for this process.
    """
    found, root = [], pathlib.Path(folder)
    archives = sorted(root.rglob("launches.tar.xz"))
    for path in [*sorted(root.rglob("launch.json")), *itertools.chain.from_iterable(map(_unpacked, archives))]:
        kernel = path.with_name("kernel.ptx")
        if kernel.exists() and _MATRIX.search(kernel.read_text(encoding="utf-8", errors="replace")) and _ctas(path) > 1:
            found.append(path)
    return tuple(found)


def _ctas(path: pathlib.Path) -> int:
    """How many CTAs the grid of a launch file has."""
    return math.prod(json.loads(path.read_text(encoding="utf-8"))["grid"])


def _unpacked(archive: pathlib.Path) -> list[pathlib.Path]:
    """The launch files of an archive, without what they expect."""
    folder = tempfile.TemporaryDirectory(prefix="smemsim-cohorts-")
    atexit.register(folder.cleanup)
    with tarfile.open(archive) as packed:
        packed.extractall(folder.name, filter="data")
    found = sorted(pathlib.Path(folder.name).rglob("launch.json"))
    for path in found:
        said = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({key: value for key, value in said.items() if key not in ("expected", "tolerance")}), encoding="utf-8")
    return found


def mutated(ptx: str, rng: random.Random) -> str:
    """The PTX with one instruction of it left out, doubled, exchanged with the next, guarded by the CTA's index, or
    with another number.
    """
    lines = ptx.split("\n")
    places = [
        n for n, line in enumerate(lines) if (found := _LINE.match(line)) and not found[1].startswith((".", "ret", "ld.param", "bra"))
    ]
    at = rng.choice(places)
    how = rng.choice(("drop", "double", "swap", "number", "number", "deviate"))
    if how == "drop":
        lines[at] = ""
    elif how == "double":
        lines[at] = f"{lines[at]} {lines[at]}"
    elif how == "swap":
        other = rng.choice([n for n in places if 0 < n - at < 4] or [at])
        lines[at], lines[other] = lines[other], lines[at]
    elif how == "number" and (numbers := list(_NUMBER.finditer(lines[at]))):
        one = rng.choice(numbers)
        lines[at] = lines[at][: one.start()] + str(int(one[1]) ^ 1 << rng.randrange(8)) + lines[at][one.end() :]
    elif not lines[at].lstrip().startswith("@"):
        lines[at] = (
            f"{{ .reg .pred %deviates; .reg .b32 %cta; mov.u32 %cta, %ctaid.x; setp.ne.u32 %deviates, %cta, {rng.randrange(3)}; @%deviates {lines[at].strip()} }}"
        )
    return "\n".join(lines)


def _recorded(path: pathlib.Path, ptx: str, *, cohorts: bool) -> Any:
    from smemsim.evidence.launches import load_launch_file

    try:
        launch = load_launch_file(path.parent)
        gpu = Gpu(launch.about["arch"] or "sm_90a")
        arrays, args = launch.placed(gpu)
        config = launch.config(args)
    except SmemsimError as e:
        return f"{type(e).__name__}: {e}"
    return outcome(gpu, ptx, config, list(arrays.values()), cohorts=cohorts)


def _case(seed: int, chunk: int, number: int) -> Case:
    rng = drawn("cohorts", seed, chunk, number)
    kernels = recorded_kernels()
    if number % 2 and kernels:
        path = rng.choice(kernels)
        ptx = mutated(path.with_name("kernel.ptx").read_text(encoding="utf-8"), rng)
        on, off = (_recorded(path, ptx, cohorts=cohorts) for cohorts in (True, False))
        wrong = difference(on, off)
        of = f"recorded, {_said(on)}"
        return Case(
            f"wrong: {of}" if wrong else of,
            {"launch": path.parent.name, "kernel.ptx": ptx} if wrong else {"launch": path.parent.name},
            wrong,
        )
    program = draw(rng)
    on, off = (program.outcome(cohorts=cohorts) for cohorts in (True, False))
    of = f"generated, {'tcgen05, ' * (program.pair > 0)}{'clusters' if program.cluster > 1 else 'no cluster'}, {_said(on)}"
    if not difference(on, off):
        return Case(of, {"ptx": program.text()})
    small = shrunk(program, simpler, lambda p: bool(_differs(p)))
    return Case(
        f"wrong: {of}", {"kernel.ptx": small.text(), "ctas": small.ctas, "cluster": small.cluster, "seed": small.seed}, _differs(small)
    )


def _said(found: Any) -> str:
    return "refused" if isinstance(found, str) else "with findings" if found[2] else "silent"


def _differs(program: Program) -> str:
    return difference(*(program.outcome(cohorts=cohorts) for cohorts in (True, False)))


def _chunk(seed: int, chunk: int) -> ChunkResult:
    """A chunk; the garbage of its launches is collected rarely."""
    with seldom_collected():
        return one_by_one("cohorts", _case, CHUNK_CASES)(seed, chunk)


SPACE = Space("cohorts", "programs of several CTAs: CTAs executed together against CTAs executed one by one: bytes in memory, and findings", _chunk, CHUNK_CASES, _case)  # fmt: skip
