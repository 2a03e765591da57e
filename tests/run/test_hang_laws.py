"""Laws of what is said of kernels that hang: random programs of waits and arrivals, wherever their CTAs are."""

import random
import re

import numpy as np
import pytest

from launches import kernel as kernel_of
from smemsim import Gpu

BARS = 3
# (seed, CTAs of a cluster): twelve of 1,400 that are told the most different sentences
PROGRAMS = [(74, 1), (74, 2), (219, 2), (157, 2), (46, 2), (177, 1), (2, 1), (176, 1), (90, 1), (44, 1), (840, 1), (1321, 2)]


def steps_of(rng, warp, cluster):
    """What a warp does: arrivals, expected bytes, copies, waits and barriers, which mostly do not fit those of others."""
    for n in range(rng.randint(1, 5)):
        bar, parity, label = rng.randrange(BARS), rng.randrange(2), f"L{warp}_{n}"
        at, other = f"[%r2+{8 * bar}]", f"add.u32 %r5, %r2, {8 * bar}; mapa.shared::cluster.u32 %r5, %r5, {rng.randrange(cluster)};"
        lanes = rng.choice(("@%p1 ", "@%p1 ", ""))
        yield rng.choice(
            [
                f"{lanes}mbarrier.arrive.shared.b64 _, {at};",
                f"{label}: mbarrier.try_wait.parity.shared.b64 %p5, {at}, {parity}; @!%p5 bra {label};",
                f"{label}: mbarrier.try_wait.parity.shared.b64 %p5, {at}, {parity}; @!%p5 bra {label};",
                f"{label}: mbarrier.test_wait.parity.shared.b64 %p5, {at}, {parity}; @!%p5 bra {label};",
                f"@%p1 mbarrier.arrive.expect_tx.shared.b64 _, {at}, {16 * rng.randint(1, 2)};",
                f"@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6+{64 * warp}], [%d1], 16, {at};",
                f"{other} {lanes}mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];",
                f"mbarrier.arrive_drop.shared.b64 _, {at};",
                f"bar.sync {rng.randint(1, 2)}, {32 * rng.randint(2, 3)};",
                "@%p1 exit;",
            ]
        )


def kernel(counts, parts, place):
    """A kernel of three warps; in other clusters than that of this number all threads end at once."""
    inits = " ".join(f"@%p0 mbarrier.init.shared.b64 [%r2+{8 * n}], {count};" for n, count in enumerate(counts))
    lines = "\n".join(part.replace("; ", ";\n") for part in parts)
    return f""".version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {{ .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %d<4>; .shared .align 8 .b64 bar[4]; .shared .align 16 .b8 sm[1024];
mov.u32 %r1, %tid.x; mov.u32 %r2, bar; mov.u32 %r3, %clusterid.x; mov.u32 %r6, sm; ld.param.u64 %d1, [out];
setp.ne.u32 %p3, %r3, {place}; @%p3 ret;
setp.eq.u32 %p0, %r1, 0; and.b32 %r4, %r1, 31; setp.eq.u32 %p1, %r4, 0; shr.u32 %r4, %r1, 5;
{inits}
fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
setp.eq.u32 %p7, %r4, 1; @%p7 bra W1; setp.eq.u32 %p7, %r4, 2; @%p7 bra W2;
{lines}
E: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret; }}"""


def program(seed, cluster, place):
    """A kernel of three warps that do what comes."""
    rng = random.Random(seed)
    counts = [rng.choice((1, 1, 2, 3, 32)) for _ in range(BARS)]
    return kernel(counts, [f"W{warp}: {' '.join(steps_of(rng, warp, cluster))} bra E;" for warp in range(3)], place)


def said(seed, cluster, place, idle=0):
    """All that is told, as of CTAs and of warps from 0 on, behind `idle` warps that end at once."""
    gpu = Gpu("sm_90a")
    out = gpu.array(np.zeros(64, np.uint32))
    first = f"setp.lt.u32 %p3, %r1, {32 * idle}; @%p3 ret; sub.u32 %r1, %r1, {32 * idle};"
    text = program(seed, cluster, place).replace("%tid.x;", f"%tid.x; {first}" if idle else "%tid.x;")
    done = gpu.launch(text, "k", grid=3 * cluster, block=96 + 32 * idle, cluster=cluster, args=[out], progress=False)
    texts = [" ".join(f"{f.severity} {f}".split()) for f in (*done.findings, *done.remarks)]
    texts = [text.replace(f"; warps 0 to {idle - 1} ended without arriving", "") for text in texts]
    texts = [
        re.sub(
            r"(?<=warp )\d+|(?<=warps )\d+(?:(?:, | and | to )\d+)*", lambda m: re.sub(r"\d+", lambda n: f"{int(n[0]) - idle}", m[0]), text
        )
        for text in texts
    ]
    return sorted(re.sub(r"(CTAs? \(?|first: \(?)(\d+)", lambda m: f"{m[1]}{int(m[2]) - place * cluster}", text) for text in texts)


@pytest.mark.parametrize(("seed", "cluster"), PROGRAMS)
def test_a_hang_is_told_the_same_in_each_cluster_of_a_wave(seed, cluster):
    told = said(seed, cluster, 0)
    assert told
    assert said(seed, cluster, 1 + seed % 2) == told
    assert said(seed, cluster, 0, idle=4) == told


@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("goes_on", [True, False])
def test_whoever_waits_elsewhere_is_not_told_to_arrive_once_more(goes_on, place, cluster):
    """Warp 1 arrives once, and ends or waits at another mbarrier for ever; warp 0 waits for a second phase."""
    wait = "{0}: mbarrier.try_wait.parity.shared.b64 %p5, [%r2+{1}], {2}; @!%p5 bra {0};"
    first = f"W0: {wait.format('A', 0, 0)}\n{wait.format('B', 0, 1)} bra E;"
    second = f"W1: @%p1 mbarrier.arrive.shared.b64 _, [%r2];\n{'' if goes_on else wait.format('D', 8, 0)} bra E;"
    text = kernel([1, 1, 1], [first, second, "W2: bra E;"], place).replace(
        "E: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", "E:"
    )
    gpu = Gpu("sm_90a")
    done = gpu.launch(text, "k", grid=3 * cluster, block=96, cluster=cluster, args=[gpu.array(np.zeros(64, np.uint32))], progress=False)
    once_more = [f.line for f in done.findings if "arrive once more" in f.repair]
    assert {f.code for f in done.findings} == {"X006"}
    assert once_more == [next(n for n, line in enumerate(text.splitlines(), 1) if line.startswith("B:"))] * goes_on
    assert ("bar[1]" in str(done.findings[0])) != goes_on  # the first cause


WAIT = "{0}: mbarrier.try_wait.parity.shared.b64 %p5, [bar+{1}], {2}; @!%p5 bra {0};"
EXPECT, COPY = (
    "@%p9 mbarrier.arrive.expect_tx.shared.b64 _, [bar+{1}], {0};",
    "@%p9 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm+{2}], [%d20], {0}, [bar+{1}];",
)


def findings_of(*body):
    """The findings of one warp, by their codes, and the lines of the kernel; mbarriers 0 and 1 expect one arrival."""
    text = kernel_of(1, "\n".join(["@%p9 mbarrier.init.shared.b64 [bar], 1; @%p9 mbarrier.init.shared.b64 [bar+8], 1; bar.sync 0;", *body]))
    gpu = Gpu("sm_90a")
    done = gpu.launch(text, "k", block=32, args=[gpu.array(np.zeros(1024, np.uint32))], progress=False)
    return {f.code: f for f in done.findings}, ["", *text.splitlines()]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_the_copy_on_the_other_mbarrier_is_the_one_of_the_missing_bytes(order):
    """Both mbarriers complete a phase that is right. In the second one the copy of 1024 bytes is for mbarrier 0."""
    early = [EXPECT.format(1024, 0), EXPECT.format(768, 8), COPY.format(1024, 0, 0), COPY.format(768, 8, 1024)]
    early += [WAIT.format("A", 0, 0), WAIT.format("B", 8, 0), EXPECT.format(1024, 0), EXPECT.format(768, 8)]
    late = [COPY.format(1024, 0, 2048), COPY.format(512, 8, 3072), COPY.format(256, 8, 3584)]
    ends = [WAIT.format("C", 8, 1), WAIT.format("D", 0, 1)]
    assert findings_of(*early, *(late[n] for n in order), *ends)[0] == {}
    late[0] = late[0].replace("[bar+0]", "[bar+8]")
    found, lines = findings_of(*early, *(late[n] for n in order), *ends)
    assert lines[found["T210"].line] == late[0]
    assert "1024 bytes more than it expects" in found["T210"].message
    assert f"line {found['T210'].line - 1 - order.index(0)} expects them" not in found["T210"].message
    assert f"line {found['T210'].line - 2 - order.index(0)} expects them" in found["T210"].message


def test_one_of_several_copies_of_the_same_size_is_on_the_other_mbarrier():
    steps = [EXPECT.format(512, 0), EXPECT.format(512, 8), COPY.format(512, 8, 0), COPY.format(512, 8, 512)]
    found, lines = findings_of(*steps, WAIT.format("A", 8, 0), WAIT.format("B", 0, 0))
    first = lines.index(steps[2])
    assert f"one of lines {first} and {first + 1} completes on the mbarrier" in found["T210"].message


@pytest.mark.parametrize("count", [1, 32])
def test_a_wait_after_each_arrival_was_dropped_is_not_told_to_arrive_once_more(count):
    drops = (
        f"mbarrier.init.shared.b64 [bar+16], {count}; bar.sync 0; {'@%p9 ' * (count == 1)}mbarrier.arrive_drop.shared.b64 %d1, [bar+16];"
    )
    assert findings_of(drops.replace("mbarrier.init", "@%p9 mbarrier.init"), WAIT.format("A", 16, 0))[0] == {}
    found, lines = findings_of(drops.replace("mbarrier.init", "@%p9 mbarrier.init"), WAIT.format("A", 16, 0), WAIT.format("B", 16, 1))
    at = next(n for n, line in enumerate(lines) if "arrive_drop" in line)
    assert found["X006"].repair == f"mbarrier.arrive instead of mbarrier.arrive_drop in line {at}, or remove the wait in line {at + 2}"
    assert "no arrival is expected any more" in found["X006"].message
