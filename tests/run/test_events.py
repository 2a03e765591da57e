"""Observers hear what a launch does (`smemsim.run.events`), with the sanitizer and without, several at once, and by
every tier.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import inspect

import numpy as np
import pytest

from gpu_faults import KERNELS
from ptx_kernels import kernel, wait
from smemsim import Gpu, InputError, TensorMap
from smemsim.evidence import load_launch_file
from smemsim.run import EVENTS, LaunchConfig, Observer, RunOptions
from smemsim.run.sanitizer.first import SanitizerOfFirst
from smemsim.run.sanitizer.sanitizer import Sanitizer

FILE = load_launch_file(KERNELS / "triton_matmul_512")
# of the grid, along K, along K of one load, of M and N of the result of a CTA
CTAS, DEPTH, STEP, TILE = 3, 256, 64, 128
# Lines of the kernel: of the loads of A and B in front of its loop and in it; of the arrivals that expect their bytes.
LOADS, LOADS_OF_LOOP, ARRIVALS, ARRIVALS_OF_LOOP = (91, 99, 114, 122), (355, 363), (82, 105), (345,)


class Counts(Observer):
    """Counts tensor loads, their bytes and arrivals at mbarriers by PTX line."""

    def __init__(self) -> None:
        self.loads = collections.Counter[int]()
        self.bytes = collections.Counter[int]()
        self.arrivals = collections.Counter[int]()

    def issued(self, x, op):
        if op.kind == "tma_load":
            self.loads[op.instruction.line] += len(op.issuers)
            self.bytes[op.instruction.line] += op.byte_count

    def mbarriers_arrived(self, x, i, arrivals, count, *, is_async, relaxed, scope):
        self.arrivals[i.line] += count * sum(len(threads) for threads, _ in arrivals)


class Accesses(Observer):
    """Counts bytes that threads access by PTX line, kind and space, and notes the CTAs."""

    def __init__(self) -> None:
        self.bytes = collections.Counter[tuple[int, str, str]]()
        self.ctas = set[int]()

    def accessed(self, x, access):
        self.bytes[access.instruction.line, access.kind, access.space] += access.byte_count
        self.ctas |= set(access.ctas.tolist())


class Names(Observer):
    """Notes the names of events in their order, of all but single accesses and instructions."""

    def __init__(self) -> None:
        self.names: list[str] = []


for _name in set(EVENTS) - {"accessed", "updates", "executes"}:
    setattr(Names, _name, functools.partialmethod(lambda self, name, *args, **given: self.names.append(name), _name))


def product(observers, **options):
    """Triton's product of 128 x 128 x 256 by 3 CTAs: findings and C."""
    gpu = Gpu("sm_90a")
    args = [one | {"value": DEPTH} if n == 15 else one for n, one in enumerate(FILE.about["args"])]
    file = dataclasses.replace(FILE, about={**FILE.about, "grid": (CTAS, 1, 1), "args": args})
    arrays, args = file.placed(gpu)
    run = gpu.run(file.ptx, file.config(args), RunOptions(observers=observers, progress=False, **options))
    return run.findings, list(arrays.values())[-1].numpy()


@pytest.mark.parametrize("sanitize", [True, False])
@pytest.mark.parametrize("cohorts", ["on", "off"])
def test_an_observer_counts_loads_bytes_and_arrivals_by_line(monkeypatch, sanitize, cohorts):
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    counts = Counts()
    findings, c = product([counts], sanitize=sanitize)
    steps = DEPTH // STEP
    assert counts.loads == dict.fromkeys(LOADS, CTAS) | dict.fromkeys(LOADS_OF_LOOP, CTAS * (steps - 2))
    assert counts.bytes == {line: loads * TILE * STEP * 2 for line, loads in counts.loads.items()}
    assert counts.arrivals == dict.fromkeys(ARRIVALS, CTAS) | dict.fromkeys(ARRIVALS_OF_LOOP, CTAS * (steps - 2))
    assert findings == []
    assert c.tobytes() == product([], sanitize=sanitize)[1].tobytes()


def test_several_observers_hear_the_same_and_know_nothing_of_each_other():
    alone, first, second, names = Counts(), Counts(), Accesses(), Names()
    product([alone], sanitize=False)
    product([first, second, names])
    assert vars(first) == vars(alone)
    assert second.ctas == set(range(CTAS))
    assert {"wave_began", "wave_ended", "bytes_counted", "mbarriers_completed", "mbarriers_passed", "group_waited"} <= set(names.names)
    issue, count, complete = (names.names.index(name) for name in ("issued", "bytes_counted", "mbarriers_completed"))
    assert issue < count < complete


STORED = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 to) {{ .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %d<5>;
.shared .align 128 .b8 sm[512]; mov.b64 %d3, map; ld.param.u64 %d1, [to]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; shl.b32 %r7, %r2, 2; mov.u32 %r5, 0; mov.u32 %r3, sm;
mul.wide.u32 %d4, %r2, 512; add.u64 %d1, %d1, %d4; mad.lo.u32 %r4, %r1, 4, %r3; st.shared.u32 [%r4], %r1; fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p1, %r1, 0; @%p1 bra E;
{} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E: ret; }}"""


@pytest.mark.parametrize("cohorts", ["on", "off"])
@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize(
    "store",
    [
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d3, {%r5, %r7}], [%r3];",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%d3, {%r5, %r7}], [%r3];",
        "cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r3], 512;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [%r3], 512;",
    ],
)
def test_an_observer_hears_the_bytes_that_every_cta_stores(store, grid, cohorts, monkeypatch):
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    gpu, heard = Gpu("sm_90a"), list[int]()
    words = gpu.array(np.zeros(128 * grid, np.uint32))
    tm = TensorMap.tiled(data_type="u32", global_address=words.address, global_dim=(32, 4 * grid), global_strides=(128,), box_dim=(32, 4))

    class Stores(Observer):
        def issued(self, x, op):
            heard.append(op.byte_count)

    options = RunOptions(observers=[Stores()], progress=False)
    assert gpu.run(STORED.format(store), LaunchConfig(grid=grid, block=128, args=[tm, words]), options).findings == []
    assert sum(heard) == 512 * grid
    assert words.numpy().tolist() == [*range(128)] * grid


LOOP = kernel(
    """
  ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mov.u32 %r2, smem; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3; mov.u32 %r4, 0;
AGAIN:
  st.shared.u32 [%r2], %r4;
  ld.shared.u32 %r5, [%r2];
  add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 40; @%p1 bra AGAIN;
  mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
  red.global.add.u32 [%rd3], %r5;
""",
    ".u64 a",
    shared=512,
)


@pytest.mark.parametrize("mode", ["closures", "compiled"])
@pytest.mark.parametrize("sanitize", [True, False])
def test_each_access_is_reported_by_every_tier(monkeypatch, mode, sanitize):
    monkeypatch.setenv("SMEMSIM_TIERS", mode)
    accesses, gpu = Accesses(), Gpu("sm_90a")
    a = gpu.array(np.zeros(64, np.uint32))
    lines = LOOP.splitlines()
    store, load, red = (1 + next(n for n, line in enumerate(lines) if op in line) for op in ("st.shared", "ld.shared", "red.global"))
    run = gpu.launch(LOOP + f"// {mode} {sanitize}", block=64, args=[a], sanitize=sanitize, observers=[accesses])
    assert run.findings == []
    assert accesses.bytes == {(store, "write", "shared"): 40 * 256, (load, "read", "shared"): 40 * 256, (red, "write", "global"): 256}
    assert (a.numpy() == 39).all()


WAITS = kernel(
    """
  mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared.b64 [smem], 1; bar.sync 0;
  setp.ge.u32 %p2, %r1, 32; @%p2 bra OTHERS;
"""
    + wait("smem")
    + """
  bra DONE;
OTHERS:
  setp.eq.u32 %p3, %r1, 32; @%p3 mbarrier.arrive.shared.b64 _, [smem];
DONE:
""",
    shared=64,
)


def test_a_wait_is_reported_when_it_begins_and_when_it_ends():
    names = Names()
    assert Gpu("sm_90a").launch(WAITS, block=64, observers=[names]).findings == []
    told = [name for name in names.names if name in ("mbarrier_blocked", "mbarriers_arrived", "mbarriers_completed", "mbarriers_passed")]
    assert told == ["mbarrier_blocked", "mbarriers_arrived", "mbarriers_completed", "mbarriers_passed"]


def test_the_end_of_a_launch_that_traps_and_of_one_that_hangs_is_reported():
    for body, name in (("trap;", "wave_stopped"), ("mbarrier.init.shared.b64 [smem], 1;" + wait("smem"), "wave_hung")):
        names = Names()
        run = Gpu("sm_90a").launch(kernel(body, shared=64), block=32, observers=[names])
        assert run.findings
        assert name in names.names
        assert "wave_ended" not in names.names


def test_both_sanitizers_hear_the_same_events():
    """An event that one does not override, or by another form, would be lost in silence."""
    heard = {name for name in EVENTS if getattr(Sanitizer, name) is not getattr(Observer, name)}
    assert heard == {name for name in EVENTS if hasattr(SanitizerOfFirst, name)}
    assert len(heard) > 40
    for name in heard:
        for kind in (Sanitizer, SanitizerOfFirst):
            mine, its = (list(inspect.signature(getattr(of, name)).parameters) for of in (kind, Observer))
            assert mine == its, (kind, name)


def test_what_is_no_observer_is_refused():
    with pytest.raises(InputError, match="observers: 1 is no"):
        RunOptions(observers=[1])
    with pytest.raises(InputError, match="one process"):
        RunOptions(observers=[Observer()], workers=2)
