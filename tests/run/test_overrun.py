"""Accesses behind an array that the launch lets go on: told as before, and nothing else changes."""

import numpy as np
import pytest

from launches import kernel
from smemsim import Gpu
from smemsim.virtual import Policy

# Threads 28 and up read and write behind an array of 28 words; and what they read counts.
BODY = """
mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d20, %d1; add.u64 %d3, %d21, %d1;
ld.global.u32 %r2, [%d2];
st.global.u32 [%d2], %r1;
ld.global.u32 %r3, [%d2];
add.u32 %r2, %r2, %r3; st.global.u32 [%d3], %r2;
"""


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize(("overrun", "goes_on"), [(0, False), (15, False), (16, True), (512, True)])
def test_what_is_touched_behind_an_array_is_told_and_goes_on_where_it_may(monkeypatch, tiers, overrun, goes_on):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    gpu = Gpu()
    x, y = gpu.array(np.arange(100, 128, dtype=np.uint32)), gpu.array(np.zeros(32, np.uint32))
    run = gpu.launch(kernel(2, BODY), block=32, args=[x, y], overrun=overrun, progress=False)
    assert {f.code for f in run.findings} == {"X001"}
    assert not run.ok
    assert run.launch.status == (0 if goes_on else 700)
    assert len(run.findings) == (2 if goes_on else 1)  # the loads, the store
    lane = np.arange(32)
    assert not goes_on or y.numpy().tolist() == (lane + np.where(lane < 28, 100 + lane, 0)).tolist()


def test_what_lies_in_front_of_an_array_or_far_behind_it_ends_the_kernel():
    for offset in (-4, 1 << 30):
        gpu = Gpu()
        x = gpu.array(np.zeros(4, np.uint32))
        run = gpu.launch(
            kernel(1, f"add.s64 %d2, %d20, {offset}; ld.global.u32 %r2, [%d2];"), block=1, args=[x], overrun=4096, progress=False
        )
        assert [f.code for f in run.findings] == ["X001"]
        assert run.launch.status == 700


# One load reads at two addresses in turn. The first one is just after an array, or one that the system reserves.
TWICE = """.shared .align 4 .b8 own[64]; st.shared.u32 [own], 1; st.shared.u32 [own+20], 1; mov.u64 %d4, own; mov.u32 %r3, 0; add.s64 %d1, {base}, {first};
AGAIN: ld.{space}.u32 %r2, [%d1]; add.s64 %d1, {base}, {second};
add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 2; @%p1 bra AGAIN; st.global.u32 [%d20], %r2;"""


@pytest.mark.parametrize(("second", "count"), [(1 << 22, 2), (20, 1), (0, 1)])
@pytest.mark.parametrize(("space", "base", "first"), [("global", "%d20", 16), ("shared", "%d4", -0x300)])
def test_what_ends_a_kernel_is_named_in_addition_to_what_does_not(space, base, first, second, count):
    gpu = Gpu()
    body = TWICE.format(space=space, base=base, first=first, second=second)
    run = gpu.launch(kernel(1, body), block=1, args=[gpu.array(np.zeros(4, np.uint32))], overrun=4096, progress=False)
    assert [f.code for f in run.findings] == ["X001"] * count
    assert bool(run.launch.status) == (count == 2)
    assert len({f.what for f in run.findings}) == count


def test_the_environment_says_how_far_behind_an_array_a_kernel_may_go_on():
    assert Policy.of({"SMEMSIM_OVERRUN": "512"}).overrun == 512
    assert Policy.of({}).overrun is None
