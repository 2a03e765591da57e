"""What lies in memory that a program allocates on the virtual card, and what is found in kernels that use it before
anybody has written it.
"""

import gc
import random
import re
import subprocess
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launches import kernel
from smemsim import TensorMap
from smemsim.virtual import CudaError, FindingsError, Policy, VirtualDevice


def word(value):
    return int(value).to_bytes(8, "little")


def card(**policy):
    return VirtualDevice("sm_90a", policy=Policy(quiet=True, **policy))


def launched(device, body, *arrays):
    """(findings, remarks) of a kernel of 32 threads, of whose arrays the host looks at all bytes."""
    function = device.load(kernel(len(arrays), body)).function("k")
    run = device.launch(function, 1, 32, [word(at) for at in arrays])
    for at in arrays:
        device.view(at, device.allocation(at).size)
    return {f.code for f in run.findings}, {f.code for f in run.remarks}


def written(first, last):
    """The host writes some bytes; nobody is told."""
    return lambda device, at: device.view(at + first, last - first).fill(0)


# ---- What a thread does with a word of its own of the first array, of 128 bytes


SWAPPED = "ld.relaxed.gpu.global.u32 %r2, [%d2]; AGAIN: {} atom.global.cas.b32 %r3, [%d2], %r2, %r4; setp.ne.u32 %p1, %r3, %r2; mov.u32 %r2, %r3; @%p1 bra AGAIN;"
EACH = "mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d20, %d1; add.u64 %d3, %d21, %d1; {}"
LOAD, STORE = "ld.global.u32 %r2, [%d2];", "st.global.u32 [%d3], %r2;"
FLAG = "setp.eq.u32 %p1, %r2, 1; @%p1 bra END; mov.u32 %r2, 5;"
PLACED = "mul.wide.u32 %d4, %r4, 4; add.u64 %d5, %d21, %d4; st.global.u32 [%d5], %r2;"
OVER_3 = "setp.le.u32 %p1, %r2, 3; @%p1 bra END;"
STAGE = ".shared .align 128 .b8 s[128]; .shared .align 8 .b8 b[8]; mov.u32 %r4, s; mov.u32 %r5, b; mad.lo.u32 %r6, %r1, 4, %r4;"
COPY_ASYNC = f"{STAGE} cp.async.ca.shared.global [%r6], [%d2], 4; cp.async.wait_all; bar.sync 0; ld.shared.u32 %r2, [%r6];"
COPY_BULK = f"""{STAGE} setp.ne.u32 %p1, %r1, 0; @%p1 bra WAIT; mbarrier.init.shared.b64 [%r5], 1; fence.mbarrier_init.release.cluster;
mbarrier.arrive.expect_tx.shared.b64 %d4, [%r5], 128;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%d20], 128, [%r5];
WAIT: bar.sync 0; POLL: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra POLL; ld.shared.u32 %r2, [%r6];"""
ROW = """mov.u32 %r2, 0; mov.u32 %r4, 0; mov.u64 %d4, %d20; NEXT: ld.global.u32 %r5, [%d4]; STEP add.u64 %d4, %d4, 4; add.u32 %r4, %r4, 1;
setp.lt.u32 %p1, %r4, COUNT; @%p1 bra NEXT; st.global.u32 [%d3], %r2;"""
WORDS = """.shared .align 128 .b8 s[128]; mov.u32 %r4, s; mad.lo.u32 %r6, %r1, 4, %r4; ld.global.u32 %r2, [%d2]; st.shared.u32 [%r6], %r2; bar.sync 0;
setp.ge.u32 %p1, %r1, 4; @%p1 bra END; ld.shared.u32 %r2, [%r6]; ld.shared.u32 %r3, [%r6+FURTHER]; add.u32 %r2, %r2, %r3; st.shared.u32 [%r6], %r2;
ld.shared.u32 %r2, [%r6]; st.global.u32 [%d3], %r2; END:"""
VECTORS = (
    "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d20+80]; ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%d20+96]; add.u32 %r2, ONE, OTHER; STORE"
)


NEXT = """setp.eq.u32 %p1, %r1, 0; @%p1 bra END; mul.wide.u32 %d7, %r1, 4; add.u64 %d7, %d20, %d7; sub.u64 %d6, %d2, 0; sub.u64 %d7, %d7, 4;
ld.global.u32 %r2, [{}]; ld.global.u32 %r3, [{}]; add.u32 %r2, %r2, %r3; STORE END:"""
THREE_POINTS = """setp.eq.u32 %p1, %r1, 0; setp.eq.or.u32 %p1, %r1, 31, %p1; @%p1 bra END; ld.global.u32 %r2, [%d2-4]; ld.global.u32 %r3, [%d2];
ld.global.u32 %r4, [%d2+4]; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; STORE END:"""
PIXEL = """setp.gt.u32 %p1, %r1, 7; @%p1 bra END; mad.wide.u32 %d6, %r1, 16, %d20; ld.global.u32 %r2, [%d6]; ld.global.u32 %r3, [%d6+4];
ld.global.u32 %r4, [%d6+12]; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; STORE END:"""


def row(step, count=32):
    """A thread goes over the first words of the first array."""
    return ROW.replace("STEP", step).replace("COUNT", str(count))


NOTHING: set[str] = set()


@pytest.mark.parametrize(
    ("body", "before", "findings", "remarks"),
    [
        (f"{LOAD} {STORE}", written(0, 128), NOTHING, NOTHING),
        (f"{LOAD} {STORE}", written(0, 96), NOTHING, {"R507"}),  # it goes to another place: a buffer with its padding
        (
            f"{LOAD} {STORE}",
            lambda device, at: [written(n, n + 4)(device, at) for n in range(0, 128, 32)],
            NOTHING,
            {"R507"},
        ),  # a word of all sectors
        (f"{LOAD} add.u32 %r3, %r2, 1; st.global.u32 [%d2], %r3;", written(0, 96), {"R507"}, NOTHING),  # added to in place
        (f"{LOAD} {FLAG} {STORE} END:", written(0, 96), {"R507"}, NOTHING),
        (f"{LOAD} {FLAG} {STORE} END:", written(0, 128), NOTHING, NOTHING),
        (f"{LOAD} and.b32 %r2, %r2, 31; mad.wide.u32 %d4, %r2, 4, %d3; st.global.u32 [%d4], 1;", written(0, 96), {"R507"}, NOTHING),
        ("red.global.add.u32 [%d2], 1;", written(0, 96), {"R507"}, NOTHING),
        ("red.global.add.u32 [%d2], 1;", written(0, 128), NOTHING, NOTHING),
        ("atom.global.cas.b32 %r3, [%d2], 0, 1;", written(0, 96), {"R507"}, NOTHING),
        (SWAPPED.format("and.b32 %r5, %r2, -16; or.b32 %r4, %r5, %r1;"), written(0, 96), NOTHING, NOTHING),  # into four bits of a word
        (SWAPPED.format("add.u32 %r4, %r2, %r1;"), written(0, 96), {"R507"}, NOTHING),
        (SWAPPED.format("or.b32 %r4, %r2, %r1;"), written(0, 96), {"R507"}, NOTHING),
        (f"atom.global.exch.b32 %r3, [%d2], 1; {LOAD} {FLAG} {STORE} END:", written(0, 96), NOTHING, NOTHING),
        (f"st.global.u32 [%d2], %r1; {LOAD} {FLAG} {STORE} END:", written(0, 0), NOTHING, NOTHING),
        (f"{LOAD} add.u32 %r2, %r1, 1; {STORE}", written(0, 0), NOTHING, NOTHING),  # nobody uses it
        (f"{COPY_ASYNC} {FLAG} {STORE} END:", written(0, 96), {"R507"}, NOTHING),
        (f"{COPY_ASYNC} {FLAG} {STORE} END:", written(0, 128), NOTHING, NOTHING),
        (f"{COPY_BULK} {FLAG} {STORE} END:", written(0, 96), {"R507"}, NOTHING),
        (f"{COPY_BULK} {FLAG} {STORE} END:", written(0, 128), NOTHING, NOTHING),
        (f"{COPY_BULK} {STORE}", written(0, 96), NOTHING, {"R507"}),
        # sums of elements
        (row("add.u32 %r2, %r2, %r5;"), written(0, 96), {"R507"}, NOTHING),
        (row("add.u32 %r2, %r2, %r5;", 24), written(0, 96), NOTHING, NOTHING),
        (row("max.u32 %r3, %r2, %r5; mov.u32 %r2, %r3;"), written(0, 96), {"R507"}, NOTHING),
        (row("mov.u32 %r2, %r5;"), written(0, 96), NOTHING, {"R507"}),  # the last one alone
        (row("setp.lt.u32 %p2, %r4, 24; selp.u32 %r3, %r5, 0, %p2; add.u32 %r2, %r2, %r3;"), written(0, 96), NOTHING, NOTHING),
        (
            row("mov.b32 %f2, %r2; mov.b32 %f5, %r5; mov.f32 %f9, 0f00000000; fma.rn.f32 %f2, %f5, %f9, %f2; mov.b32 %r2, %f2;"),
            written(0, 96),
            NOTHING,
            {"R507"},
        ),  # times 0
        (
            row("mov.b32 %f2, %r2; mov.b32 %f5, %r5; fma.rn.f32 %f2, %f5, 0f40000000, %f2; mov.b32 %r2, %f2;"),
            written(0, 96),
            {"R507"},
            NOTHING,
        ),
        (f"{LOAD} shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1; add.u32 %r2, %r2, %r3; {STORE}", written(0, 96), {"R507"}, NOTHING),
        (f"{LOAD} shfl.sync.bfly.b32 %r2, %r2, 1, 31, -1; {STORE}", written(0, 96), NOTHING, {"R507"}),
        (f"{LOAD} redux.sync.add.u32 %r2, %r2, -1; {STORE}", written(0, 96), {"R507"}, NOTHING),
        (f"{LOAD} redux.sync.add.u32 %r2, %r2, -1; {STORE}", written(0, 128), NOTHING, NOTHING),
        (WORDS.replace("FURTHER", "96"), written(0, 96), {"R507"}, NOTHING),
        (WORDS.replace("FURTHER", "64"), written(0, 96), NOTHING, NOTHING),
        (VECTORS.replace("ONE", "%r5").replace("OTHER", "%r6").replace("STORE", STORE), written(0, 92), {"R507"}, NOTHING),
        (VECTORS.replace("ONE", "%r6").replace("OTHER", "%r7").replace("STORE", STORE), written(0, 92), NOTHING, {"R507"}),  # a pixel
        # neighbours in an array, and the parts of a pixel; the last thread takes the element behind its own
        *(
            (NEXT.format(*at).replace("STORE", STORE), written(0, 124), {"R507"}, NOTHING)
            for at in (("%d2", "%d2-4"), ("%d7", "%d2"), ("%d2", "%d6-4"))
        ),
        (THREE_POINTS.replace("STORE", STORE), written(0, 124), {"R507"}, NOTHING),
        (THREE_POINTS.replace("STORE", STORE), written(0, 128), NOTHING, NOTHING),
        (PIXEL.replace("STORE", STORE), written(0, 124), NOTHING, {"R507"}),
        (PIXEL.replace("STORE", STORE), written(0, 96), NOTHING, {"R507"}),
        (PIXEL.replace("STORE", STORE).replace("%r1, 16,", "%r1, 8,"), written(0, 64), {"R507"}, NOTHING),  # they overlap
        (NEXT.format("%d2", "%d2-4").replace("STORE", STORE), written(0, 120), {"R507"}, NOTHING),
        # an element that decides about itself alone
        (f"{LOAD} {OVER_3} {STORE} END:", written(0, 96), NOTHING, {"R507"}),
        (f"{LOAD} {OVER_3} {STORE} END:", written(0, 0), {"R507"}, NOTHING),
        (f"{LOAD} {OVER_3} st.global.u32 [%d3], 1; END:", written(0, 96), {"R507"}, NOTHING),
        (f"{LOAD} {OVER_3} st.global.u32 [%d21], %r2; END:", written(0, 124), {"R507"}, NOTHING),  # at a fixed place
        (f"{LOAD} {OVER_3} add.u64 %d3, %d3, 4; {STORE} END:", written(0, 96), {"R507"}, NOTHING),
        (f"{LOAD} {OVER_3} st.global.u32 [%d2], 0; END:", written(0, 96), NOTHING, {"R507"}),
        # several elements decide about one place
        (f"{LOAD} {OVER_3} shr.u32 %r4, %r1, 3; {PLACED} END:", written(0, 96), {"R507"}, NOTHING),
        (f"{LOAD} {OVER_3} mul.hi.u32 %r4, %r1, 0x20000000; {PLACED} END:", written(0, 96), {"R507"}, NOTHING),
        *(
            (f"{LOAD} {OVER_3} {index} {PLACED} END:", written(0, 96), {"R507"}, NOTHING)
            for index in (
                "mul.lo.u32 %r4, %r1, 0;",
                "shl.b32 %r4, %r1, 32;",
                "cvt.u8.u32 %r4, %r1;",
                "cvt.u16.u32 %h1, %r1; shl.b16 %h1, %h1, 14; cvt.u32.u16 %r4, %h1;",
                "cvt.u16.u32 %h1, %r1; mul.lo.u16 %h1, %h1, 0x4000; cvt.u32.u16 %r4, %h1;",
                "sub.u32 %r4, %r1, %r1;",
            )
        ),
        *(
            (f"{LOAD} {OVER_3} {index} {PLACED} END:", written(0, 96), NOTHING, {"R507"})
            for index in (
                "add.u32 %r4, %r1, 0;",
                "shl.b32 %r4, %r1, 1;",
                "mad.lo.u32 %r4, %r1, 2, 1;",
                "cvt.u64.u32 %d6, %r1; cvt.u32.u64 %r4, %d6;",
            )
        ),
        # an array that nothing has written holds no padding
        (f"{LOAD} add.u32 %r2, %r2, 1; {STORE}", written(0, 96), NOTHING, {"R507"}),
        (f"{LOAD} add.u32 %r2, %r2, 1; {STORE}", written(0, 0), {"R507"}, NOTHING),
        (f"{LOAD} {STORE}", written(0, 0), NOTHING, {"R507"}),
        (
            f"{LOAD} mov.b32 %f2, %r2; mov.f32 %f9, 0f00000000; mul.f32 %f2, %f2, %f9; mov.b32 %r2, %f2; {STORE}",
            written(0, 0),
            NOTHING,
            {"R507"},
        ),
    ],
)
def test_memory_that_was_allocated_and_not_set_is_no_value(body, before, findings, remarks):
    device = card()
    data, out = device.allocate(128), device.allocate(1 << 18)
    before(device, data)
    assert launched(device, EACH.format(body), data, out) == (findings, remarks)


TIMES_0 = "mov.b32 %f2, %r2; mov.b32 %f5, %r5; mov.f32 %f9, 0f00000000; fma.rn.f32 %f2, %f5, %f9, %f2; mov.b32 %r2, %f2;"
FIRST = {
    "a sum": row("add.u32 %r2, %r2, %r5;"), "a sum of lanes": f"{LOAD} redux.sync.add.u32 %r2, %r2, -1; {STORE}",
    "a copy": f"{LOAD} {STORE}", "a bulk copy": f"{COPY_BULK} {STORE}", "a product with 0": row(TIMES_0),
}  # fmt: skip
LATER = {
    "nothing": "", "a copy": f"{LOAD} {STORE}", "another value": f"{LOAD} add.u32 %r2, %r2, 1; {STORE}", "a sum": FIRST["a sum"],
    "a comparison": f"{LOAD} setp.gt.u32 %p1, %r2, 5; @%p1 {STORE}", "a product with 0": row(TIMES_0),
}  # fmt: skip


@pytest.mark.parametrize("then", LATER)
@pytest.mark.parametrize("first", FIRST)
def test_what_is_made_of_memory_that_nobody_set_counts_where_something_uses_it(first, then):
    """A launch makes the second array of the first one, a later one the third of the second. The second is overwritten
    before the host looks at the third. Copies may be padding; what decides about itself alone, too.
    """
    device = card()
    data, out, last = (device.allocate(128) for _ in range(3))
    device.fill(data, 0, 96)
    run = device.launch(device.load(kernel(2, EACH.format(FIRST[first]))).function("k"), 1, 32, [word(data), word(out)])
    device.launch(device.load(kernel(2, EACH.format(LATER[then]))).function("k"), 1, 32, [word(out), word(last)])
    device.fill(out, 0, 128)
    is_sum = "a sum" in first
    assert [f.code for f in run.findings] == ["R507"] * (is_sum and then == "a comparison")
    device.view(last, 128)
    assert [f.code for f in run.findings] == ["R507"] * (then == "a sum" or (is_sum and then != "nothing"))


CONFLICTS = ".shared .align 128 .b8 s[4096]; mov.u32 %r4, s; mad.lo.u32 %r6, %r1, 128, %r4;" + 32 * "st.shared.u32 [%r6], %r1;"


@pytest.mark.parametrize("remarks", [False, True])
def test_a_remark_of_a_launch_without_findings_is_printed_once_on_request(remarks, capsys):
    device = card(remarks=remarks, counters=True)
    data = device.allocate(128)
    for _ in range(2):
        found, noted = launched(device, CONFLICTS, data)
        assert (found, "P902" in noted) == (NOTHING, True)
    assert capsys.readouterr().err.count("P902") == remarks


# ---- Which memory is nobody's


FLAGGED = "ld.global.u32 %r2, [%d20]; setp.eq.u32 %p1, %r2, 0; @%p1 bra END; st.global.u32 [%d21], 1; END:"


def by_a_kernel(device, flag):
    launched(device, "@%p9 st.global.u32 [%d20], 5;", flag)


def by_a_kernel_that_nobody_ran(device, flag):
    device.launcher.hooks = [(re.compile("^k$"), lambda launch: None)]
    device.launch(device.load(kernel(0, "")).function("k"), 1, 1, [])
    device.launcher.hooks = []


@pytest.mark.parametrize(
    ("before", "given", "codes"),
    [
        (lambda device, flag: None, {}, {"R507"}),
        (lambda device, flag: device.fill(flag, 0, 4), {}, set()),
        (lambda device, flag: device.fill(flag + 4092, 0, 4), {}, {"R507"}),
        (by_a_kernel, {}, set()),
        (by_a_kernel, {"sanitize": False}, set()),
        (by_a_kernel_that_nobody_ran, {}, set()),
        (lambda device, flag: None, {"fresh_memory": "zeros"}, set()),
        (lambda device, flag: None, {"ctas": (0,)}, set()),  # others might have written there
    ],
)
def test_memory_counts_as_written_by_whoever_wrote_it(before, given, codes):
    device = card(**given)
    flag, out = device.allocate(4096), device.allocate(4)
    before(device, flag)
    assert launched(device, FLAGGED, flag, out)[0] == codes


@pytest.mark.parametrize("kind", ["managed", "pinned"])
def test_memory_of_the_host_holds_zeros(kind):
    device = card()
    assert not device.view(device.allocate(4096, kind), 4096).any()


def test_memory_that_is_given_again_is_nobodys_again():
    device = card()
    a = device.allocate(4096)
    before = device.view(a, 4096).copy()
    device.fill(a, 0, 4096)
    device.free(a)
    b = device.allocate(4096)
    assert before.any()
    assert (device.view(b, 4096).view(np.uint16) & 0x7F00 == 0x7B00).all()


def test_addresses_that_are_given_again_are_nobodys_then():
    memory, rng, held, given, refused = card().memory, random.Random(5), [], set(), 0
    for _ in range(200):
        if held and rng.random() < 0.45:
            assert memory.give_back(*held.pop(rng.randrange(len(held))))
            continue
        size = rng.choice((1 << 35, 1 << 36, 3 << 36, 1 << 38))
        try:
            address = memory.reserve(size, 1 << 21)
        except MemoryError:
            refused += 1
            continue
        assert all(address + size <= begin or begin + other <= address for begin, other in held)
        held.append((address, size))
        given.add(address)
    assert refused < 60
    assert len(given) < 60  # some twice


@pytest.mark.parametrize(
    ("program", "said", "wanted"),
    [
        ("prog", "/src/gemm.cu:12", "/src/gemm.cu:12"), ("prog", "/src/gemm.cu:12 (discriminator 3)", "/src/gemm.cu:12"),
        ("prog", "??:0", "prog+0x1234 (nvcc -g names the line)"), ("prog", "/src/gemm.cu:?", "prog+0x1234 (nvcc -g names the line)"),
        ("prog", "", "prog+0x1234 (nvcc -g names the line)"), ("libx.so.1", "??:?", "libx.so.1+0x1234"),
        ("libx.so.1", "x.cpp:7", "x.cpp:7"),
    ],
)  # fmt: skip
def test_the_place_that_asked_for_memory_is_the_line_that_addr2line_has_for_the_call(program, said, wanted, monkeypatch, tmp_path):
    """A call ends at the address to which it returns: the byte before it is the call's."""
    tool = tmp_path / "addr2line"
    tool.write_text(f'#!/bin/sh\n[ "$*" = "-e {tmp_path}/{program} 0x1233" ] && echo "{said}"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    device = card()
    assert device.allocation(device.allocate(64, where=f"{tmp_path}/{program}+0x1234")).told().endswith(f", made at {wanted}")
    for where in ("b.py:2", f"{tmp_path}/other"):  # of a program in Python, for example
        assert device.allocation(device.allocate(64, where=where)).told().endswith(f", made at {where}")
    tool.unlink()
    where = f"{tmp_path}/{program}+0x5678"
    assert device.allocation(device.allocate(64, where=where)).told().endswith(f", made at {where}")


@pytest.mark.parametrize("element", [1, 2, 4, 8])
def test_what_the_host_computes_has_the_marks_that_it_says(element):
    """Elements that other code of the host has written, such as a library's: with the marks of what they are made of, or
    with none.
    """
    device = card()
    given, at = device.allocate(128), device.allocate(128)
    launched(device, EACH.format(LOAD + STORE), given, at)
    before, numbers = device.taint.marked(at, 128)
    assert before.tolist() == [*range(128)]
    offsets = np.arange(0, 128, element)
    marks = np.where(offsets // element % 3 == 1, 0, numbers[0]).astype(np.int32)
    for part in (slice(0, None, 2), slice(1, None, 2)):  # the others stay as they were
        device.taint.becomes(at, 128, offsets[part], marks[part], element=element)
        of_byte = np.repeat(marks, element)
        rest = np.repeat(np.arange(len(offsets)) % 2 != part.start, element) & (part.start == 0)
        after, found = device.taint.marked(at, 128)
        wanted = rest | (of_byte != 0)
        assert after.tolist() == np.flatnonzero(wanted).tolist()
        assert set(found.tolist()) == {int(numbers[0])}
    launched(device, FLAGGED.replace("[%d20]", "[%d20+4]"), at, device.allocate(128))
    codes = {f["code"] for launch in device.launches for f in launch.run["findings"]}
    assert codes == ({"R507"} if of_byte[4:8].all() else set())  # of a word, one written byte is enough


def test_what_a_sum_makes_of_garbage_is_seen_and_a_product_with_zero_is_zero():
    device = card()
    data = device.view(device.allocate(4096), 4096)
    for kind in (np.float16, np.float32, np.float64):
        values = data.view(kind).astype(np.float64)
        assert np.isfinite(values).all()
        assert np.abs(values).min() > 50000
    assert np.abs(data.view(np.int32).astype(np.int64)).min() > 1 << 26


@given(st.integers(4, 300), st.integers(0, 300), st.integers(0, 40), st.data())
def test_a_word_counts_as_written_if_the_host_has_written_some_of_it(size, first, count, data):
    device = card()
    at, out = device.allocate(size), device.allocate(4)
    rest = device.view(at, size)[first : first + count]
    rest += 1
    word_ = data.draw(st.integers(0, size // 4 - 1))
    touched = {n // 4 for n in range(min(first, size // 4 * 4), min(first + count, size // 4 * 4))}
    codes = launched(device, FLAGGED.replace("[%d20]", f"[%d20+{4 * word_}]"), at, out)[0]
    assert codes == (set() if word_ in touched else {"R507"})


# ---- Products: registers of A, B and C come from planes of 32 words each; rows 8 to 15 of A are its registers 1 and 3, those of D 2 and 3


def mma(stored, before="mov.u32 %r20, 0;"):
    planes = "".join(f"ld.global.u32 %r{30 + n}, [%d2+{128 * n}];" for n in range(10))
    d = "{%r40, %r41, %r42, %r43}"
    product = (
        f"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {d}, {{%r30, %r31, %r32, %r33}}, {{%r34, %r35}}, {{%r36, %r37, %r38, %r39}};"
    )
    return EACH.format(f"{planes} {before} {product} " + "".join(f"st.global.u32 [%d3+{128 * n}], %r{40 + n};" for n in stored))


ZEROED = "mov.u32 %r31, 0; mov.u32 %r33, 0;"


@pytest.mark.parametrize(
    ("blank", "stored", "before", "codes"),
    [
        ((), range(4), "", set()),
        (range(4), range(4), "", {"R507"}),
        (range(4), (), "", set()),
        ((1, 3), (0, 1), "", set()),
        ((1, 3), (2, 3), "", {"R507"}),
        ((1, 3), range(4), ZEROED, set()),
        ((2,), (0, 1), "", {"R507"}),
        ((2,), (2, 3), "", set()),
        ((4, 5), (0,), "", {"R507"}),
        ((4, 5), (0,), "mov.u32 %r30, 0; mov.u32 %r31, 0; mov.u32 %r32, 0; mov.u32 %r33, 0;", {"R507"}),
        ((6, 7), (0, 1), "", {"R507"}),
        ((6, 7), (2, 3), "", set()),
    ],
    ids=[
        "all is there", "all of A, stored", "all of A, thrown away", "rows that are not stored", "rows that are stored", "rows that are zeroed", "a part of K",
        "a part of K of other rows", "B", "B times zero", "C", "C of other rows",
    ],
)  # fmt: skip
def test_what_a_product_makes_of_memory_that_was_not_set_is_a_result(blank, stored, before, codes):
    device = card()
    data, out = device.allocate(1280), device.allocate(512)
    for n in {*range(10)} - {*blank}:
        written(128 * n, 128 * n + 128)(device, data)
    assert launched(device, mma(stored, before), data, out) == (codes, NOTHING)


@pytest.mark.parametrize(
    ("planes", "held", "code"),
    [((4, 5), 1, NOTHING), ((5,), 1, {"R507"}), ((5,), 0, NOTHING)],
    ids=["columns", "a part of K of columns", "the rest of K is 0"],
)
def test_columns_of_a_product_of_registers_that_are_padding_may_be_copied(planes, held, code):
    """Lanes 24 to 31 have columns 6 and 7 of B. D lies row by row."""
    device = card()
    data, out = device.allocate(1280), device.allocate(512)
    written(0, 1280)(device, data)
    device.view(data, 768).fill(held)  # A and B; C is 0
    for plane in planes:
        device.copy(data + 128 * plane + 96, device.allocate(32), 32)  # what nobody has written
    store = """shr.u32 %r50, %r1, 2; and.b32 %r51, %r1, 3; mul.lo.u32 %r50, %r50, 32; mad.lo.u32 %r50, %r51, 8, %r50; cvt.u64.u32 %d5, %r50;
    add.u64 %d5, %d21, %d5; st.global.v2.u32 [%d5], {%r40, %r41}; st.global.v2.u32 [%d5+256], {%r42, %r43};"""
    findings, remarks = launched(device, mma(()) + store, data, out)
    assert (findings, "R507" in remarks) == (code, not code)


# ---- Bytes that a kernel leaves out: it writes three of each word


THREE = "st.global.u16 [%d2], %r1; st.global.u8 [%d2+2], %r1;"
TAKES = "bfe.u32 %r2, %r2, {}, 8; setp.gt.u32 %p1, %r2, 9; selp.u32 %r2, 1, 2, %p1; st.global.u32 [%d3], %r2;"


@pytest.mark.parametrize("tiers", ["closures", "compiled"])
@pytest.mark.parametrize(("byte", "codes"), [(2, set()), (3, {"R507"})])
@pytest.mark.parametrize("load", [LOAD, COPY_ASYNC, COPY_BULK], ids=["ld", "cp.async", "bulk"])
def test_a_byte_that_a_kernel_leaves_out_is_uninitialised(load, byte, codes, tiers, monkeypatch):
    monkeypatch.setenv("SMEMSIM_TIERS", tiers)
    device = card()
    data, out = device.allocate(128), device.allocate(256)
    assert launched(device, EACH.format(THREE), data, out) == (NOTHING, NOTHING)
    assert launched(device, EACH.format(f"{load} {TAKES.format(8 * byte)}"), data, out) == (codes, NOTHING)


@pytest.mark.parametrize(
    "then",
    [
        lambda device, data: device.view(data, 128)[3::4].fill(0),
        lambda device, data: launched(device, EACH.format("st.global.u8 [%d2+3], %r1;"), data, data),
        lambda device, data: launched(device, EACH.format("st.global.u32 [%d2], %r1;"), data, data),
    ],
    ids=["by the host", "by a kernel", "with the others"],
)
def test_a_byte_that_is_written_later_has_a_value(then):
    device = card()
    data, out = device.allocate(128), device.allocate(256)
    launched(device, EACH.format(THREE), data, out)
    then(device, data)
    assert launched(device, EACH.format(f"{LOAD} {TAKES.format(24)}"), data, out) == (NOTHING, NOTHING)


def test_bytes_beside_what_the_host_has_written_are_no_holes():
    """A kernel changes three bytes of each word of an image that the host has written, some of whose other bytes are
    those of the garbage.
    """
    device = card()
    data, out = device.allocate(128), device.allocate(256)
    words = device.view(data, 128).view(np.uint32)
    words ^= 0x00FF00FF
    launched(device, EACH.format(THREE), data, out)
    assert launched(device, EACH.format(f"{LOAD} {TAKES.format(24)}"), data, out) == (NOTHING, NOTHING)


# ---- A tensor map's box of 8 rows of 64 bytes, swizzled: thread n looks at word 4 n of the tile in shared memory


TILE = """.shared .align 1024 .b8 s[512]; .shared .align 8 .b8 b[8]; mov.u32 %r4, s; mov.u32 %r5, b; mad.lo.u32 %r6, %r1, 16, %r4;
setp.ne.u32 %p1, %r1, 0; @%p1 bra WAIT; mbarrier.init.shared.b64 [%r5], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;
mbarrier.arrive.expect_tx.shared.b64 %d4, [%r5], 512; mov.u32 %r7, 0;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%d20, {%r7, %r7}], [%r5];
WAIT: bar.sync 0; POLL: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra POLL;
setp.ne.u32 %p3, %r1, LANE; @%p3 bra END; ld.shared.u32 %r2, [%r6]; setp.eq.u32 %p4, %r2, 1; @%p4 bra END; st.global.u32 [%d21], 1; END:"""


@pytest.mark.parametrize("lane", [0, 3, 5, 17, 30])
def test_a_tensor_load_carries_what_nobody_has_written_to_where_its_swizzle_puts_it(lane):
    row, chunk = divmod(lane, 4)
    source = (64 * row + 16 * (chunk ^ row // 2 % 4)) // 32 * 32  # the sector that 16 bytes of the tile come from
    for blank in (source, (source + 32) % 512):
        device = card()
        data, out, held = device.allocate(512), device.allocate(4), device.allocate(128)
        tm = TensorMap.tiled(
            data_type="u32", global_address=data, global_dim=[16, 8], global_strides=[64], box_dim=[16, 8], swizzle="64B", arch="sm_90a"
        )
        device.view(held, 128)[:] = np.frombuffer(bytes(tm), np.uint8)
        rest = device.view(data, 512)
        rest[:blank] = rest[blank + 32 :] = 0
        assert launched(device, TILE.replace("LANE", str(lane)), held, out)[0] == ({"R507"} if blank == source else set())


@pytest.mark.parametrize(("byte", "codes"), [(0, set()), (-1, {"R507"}), (-2, set())])
@pytest.mark.parametrize("extent", [28, 27, 26])
def test_a_box_that_ends_inside_a_chunk_carries_the_bytes_of_its_rows(extent, byte, codes):
    """A kernel leaves out the last byte of each row; beyond the rows the box has zeros."""
    device = card()
    data, out, held = device.allocate(32 * 8), device.allocate(4), device.allocate(128)
    tm = TensorMap.tiled(data_type="u8", global_address=data, global_dim=[extent, 8], global_strides=[32], box_dim=[32, 8], arch="sm_90a")
    device.view(held, 128)[:] = np.frombuffer(bytes(tm), np.uint8)
    fill = "mov.u32 %r3, 0; AGAIN: mul.wide.u32 %d3, %r3, 32; add.u64 %d3, %d3, %d20; add.u64 %d3, %d3, %d1; setp.ne.u32 %p1, %r1, LAST; "
    body = f"cvt.u64.u32 %d1, %r1; {fill} @%p1 st.global.u8 [%d3], %r1; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 8; @%p1 bra AGAIN;"
    assert launched(device, body.replace("LAST", str(extent - 1)), data, out) == (NOTHING, NOTHING)
    tile = TILE.replace("expect_tx.shared.b64 %d4, [%r5], 512", "expect_tx.shared.b64 %d4, [%r5], 256")
    use = f"add.u32 %r6, %r4, {byte % extent}; ld.shared.u8 %r2, [%r6];"
    assert launched(device, tile.replace("ld.shared.u32 %r2, [%r6];", use).replace("LANE", "3"), held, out)[0] == codes


# runs as machine code
LONG = f"mov.u32 %r3, 0; AGAIN: {LOAD} add.u32 %r3, %r3, 1; {STORE} setp.lt.u32 %p1, %r3, 5000; @%p1 bra AGAIN;"


def test_the_memory_of_a_card_goes_with_it_though_its_programs_are_kept():
    device = card()
    a, b = device.allocate(4096), device.allocate(4096)
    device.fill(a, 0, 4096)
    assert launched(device, EACH.format(LONG), a, b) == (NOTHING, NOTHING)
    held = weakref.ref(device.memory)
    del device
    gc.collect()
    assert held() is None


ALLOCATOR = """
import ctypes, errno, random, threading
from smemsim.virtual import notes

notes.map_notes()
try:
    notes.map_notes()
except OSError as e:
    assert e.errno == errno.EEXIST, e
else:
    raise AssertionError("two places for notes")
at = notes.replacements()
assert all(at.values()) and len(at) == 2
free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(at["free"])
aligned = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_size_t)(at["posix_memalign"])

def made(size, alignment=64):
    place = ctypes.c_void_p()
    assert aligned(ctypes.byref(place), alignment, size) == 0
    assert place.value % max(alignment, notes.ALIGNMENT) == 0, (place.value, alignment)
    return place.value

for alignment in (8, 64, 512, 1024, 4096):  # one allocation
    a, b = made(1000, alignment), made(3000)
    assert (notes.size_at(a), notes.size_at(b), notes.size_at(a + 512)) == (1000, 3000, 0)
    for byte, held in ((0, (a, 1000)), (1, (a, 1000)), (999, (a, 1000)), (1000, None), (-1, None)):
        found = notes.holding(a + byte)
        assert found == held or (held is None and found is not None and found[0] != a), (byte, found)
    assert not notes.is_claimed(a) and not notes.is_claimed(b)
    notes.claim(a)
    notes.claim(a + 512)
    assert notes.is_claimed(a) and not notes.is_claimed(b) and not notes.is_claimed(a + 512)
    assert (notes.size_at(a), notes.holding(a + 999), notes.size_at(b)) == (1000, (a, 1000), 3000)
    free(a)
    assert not notes.is_claimed(a) and notes.size_at(a) == 0 and notes.holding(a) is None
    notes.claim(a)
    assert not notes.is_claimed(a) and notes.holding(a) is None
    free(b)
free(None)
place = ctypes.c_void_p()
assert aligned(ctypes.byref(place), 1000, 64) == errno.EINVAL and not place.value

rng, held, gone = random.Random(2), {}, set()  # many, whose notes have one place
for n in range(5000):
    if held and rng.random() < 0.2:
        a = rng.choice(list(held)) if n % 50 == 0 else next(iter(held))
        free(a)
        held.pop(a), gone.add(a)
    else:
        size = rng.choice((100, 5000, 300_000, 2_000_000)) + rng.randrange(100)
        a = made(size)
        held[a] = size
        gone.discard(a)
        assert not notes.is_claimed(a)
        if n % 3 == 0:
            notes.claim(a)
assert len({notes._place_of(a) for a in held}) < len(held), "no two notes meet"
assert {a: notes.size_at(a) for a in held} == held
assert not any(notes.size_at(a) or notes.is_claimed(a) for a in gone)
for a in list(held)[::20]:
    assert notes.holding(a + held[a] - 1) == (a, held[a])
for a in held:
    free(a)
assert not any(notes.size_at(a) for a in held)

left = []  # several threads at once

def work(seed):
    own = []
    for n in range(400):
        own.append((made(64 * seed + n + 1), 64 * seed + n + 1))
        if n % 2:
            free(own.pop(0)[0])
    left.extend(own)

threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
assert len(left) == 800 and all(notes.size_at(a) == size for a, size in left)
print("right")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="replaces functions of Linux's C library")
def test_memory_that_the_replaced_allocator_gives_is_noted_until_it_is_freed():
    """As PyTorch's allocator calls it, in a process of its own: addresses, sizes, claims, notes that share a place."""
    done = subprocess.run([sys.executable, "-c", ALLOCATOR], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("right\n", "", 0)


# ---- Values that nothing has written are stored: a remark until something uses them


# Each CTA of 32 threads stores the words of shared memory, of which threads below the limit have written their own.
SCRATCH = """.shared .align 16 .b8 s[128]; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %d1, %r3, 4; add.u64 %d2, %d20, %d1;
mov.u32 %r4, s; mad.lo.u32 %r5, %r1, 4, %r4; setp.lt.u32 %p1, %r1, 24; @%p1 st.shared.u32 [%r5], %r3; bar.sync 0; ld.shared.u32 %r6, [%r5];
add.u32 %r6, %r6, 1; st.global.u32 [%d2], %r6;"""
# Each thread adds 2 to its word of the first array, and the chosen ones store the sum to the second one.
ADDS = """mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %d1, %r3, 4; add.u64 %d2, %d20, %d1; add.u64 %d3, %d21, %d1;
setp.lt.u32 %p1, %r1, LIMIT; mov.u32 %r5, 0; AGAIN: {load} add.u32 %r6, %r6, 2; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, TIMES; @%p2 bra AGAIN;
@%p1 st.global.u32 [%d3], %r6;"""
CTAS = 40
MADE = {
    "ld": "ld.global.u32 %r6, [%d2];",
    "ld.nc": "ld.global.nc.u32 %r6, [%d2];",
    "cp.async": ".shared .align 16 .b8 t[128]; mov.u32 %r7, t; mad.lo.u32 %r8, %r1, 4, %r7; cp.async.ca.shared.global [%r8], [%d2], 4; "
    "cp.async.wait_all; bar.sync 0; ld.shared.u32 %r6, [%r8];",
}


class Stored:
    """A card with a buffer in which some words of each 128 bytes are uninitialised values, and an output."""

    def __init__(self, **policy):
        self.device = card(**policy)
        self.scratch, self.out = (self.device.allocate(128 * CTAS) for _ in range(2))
        self.device.fill(self.out, 0, 128 * CTAS)
        self.made = self.launch(SCRATCH, self.scratch)

    def launch(self, body, *arrays):
        return self.device.launch(self.device.load(kernel(len(arrays), body)).function("k"), CTAS, 32, [word(at) for at in arrays])

    def add(self, limit, load="ld", times=1, to=None):
        body = ADDS.format(load=MADE[load]).replace("LIMIT", str(limit)).replace("TIMES", str(times))
        return self.launch(body, self.scratch, self.out if to is None else to)

    def read(self, at, size):
        host = np.zeros(size, np.uint8)
        self.device.copy(host.ctypes.data, at, size)

    @property
    def codes(self):
        """Of findings and of remarks, each once: several instructions of one line may have the same."""
        return [*dict.fromkeys(f.code for f in self.made.findings)], [*dict.fromkeys(f.code for f in self.made.remarks)]


ONLY_STORED, IS_USED = ([], ["R507"]), (["R507"], [])
EXECUTED = [{}, {"SMEMSIM_TIERS": "closures"}, {"SMEMSIM_TIERS": "compiled"}, {"SMEMSIM_COHORTS": "off"}, {"workers": 2}]


@pytest.fixture(params=EXECUTED, ids=["as usual", "closures", "compiled", "cohorts off", "two processes"])
def executed(request, monkeypatch):
    """Options of the card, for each way to execute a launch."""
    for name, value in request.param.items():
        if name.startswith("SMEMSIM"):
            monkeypatch.setenv(name, value)
    return {name: value for name, value in request.param.items() if not name.startswith("SMEMSIM")}


def test_a_stored_value_that_only_dead_work_reads_is_a_remark(executed):
    card_ = Stored(**executed)
    later = card_.add(24, times=40)
    card_.read(card_.out, 128 * CTAS)
    for row in range(CTAS):
        card_.read(card_.scratch + 128 * row, 96)
    assert (card_.codes, later.findings, later.remarks) == (ONLY_STORED, [], [])
    assert "nothing has used it" in card_.made.remarks[0].why
    assert card_.made.is_strictly_ok


@pytest.mark.parametrize("load", MADE)
def test_a_later_launch_that_stores_what_it_makes_of_a_stored_value_gives_it_to_the_host(load, executed):
    card_ = Stored(**executed)
    later = card_.add(25, load, times=1 if load == "cp.async" else 40)
    assert card_.codes == ONLY_STORED
    card_.read(card_.out, 96)
    assert card_.codes == ONLY_STORED
    card_.read(card_.out + 128 * CTAS - 32, 4)  # the last CTA's word of thread 24
    assert (card_.codes, later.findings) == (IS_USED, [])
    (found,) = card_.made.findings
    assert [half.does for half in found.halves] == ["read", "store", "use"]
    assert found.halves[2].text == "a copy to the host"
    assert (found.line, found.halves[1].instruction.name) == (found.halves[0].instruction.line, "st.global.u32")


def decides(card_):
    card_.launch(
        "ld.global.u32 %r6, [%d20+100]; setp.gt.u32 %p1, %r6, 7; @%p1 bra END; st.global.u32 [%d21], 1; END:", card_.scratch, card_.out
    )


def adds_atomically(card_):
    card_.launch("@%p9 red.global.add.u32 [%d20+100], 1;", card_.scratch)


def to_another_buffer(card_):
    other = card_.device.allocate(128)
    card_.device.copy(other, card_.scratch, 128)
    card_.read(other + 98, 1)


def unseen(card_):
    card_.device.policy = Policy(quiet=True, sanitize=False)
    card_.add(8)


@pytest.mark.parametrize(
    ("use", "how"),
    [
        (lambda card_: card_.read(card_.scratch, 128), "a copy to the host"),
        (lambda card_: card_.read(card_.scratch + 99, 1), "a copy to the host"),
        (lambda card_: card_.device.view(card_.scratch, 128), "the host reads the memory"),
        (decides, "bra, PTX line 15 of k, a later launch"),
        (adds_atomically, "red.global.add.u32, PTX line 14 of k, a later launch"),
        (to_another_buffer, "a copy to the host"),
        (unseen, "k, a later launch whose reads are not followed"),
    ],
    ids=["copied", "a byte of it", "looked at", "decides", "atomic", "copied on the card", "without the sanitizer"],
)
def test_what_is_a_use_of_a_stored_value(use, how):
    card_ = Stored()
    use(card_)
    assert card_.codes == IS_USED
    assert card_.made.findings[0].halves[-1].text == how


SUMS = SCRATCH.replace("add.u64 %d2, %d20, %d1;", "mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d20, %d1;").split("add.u32 %r6")[0]
VALID = lambda card_: card_.read(card_.out, 96)  # noqa: E731


@pytest.mark.parametrize(
    ("add", "use", "code"),
    [
        ("red.global.add.u32 [%d2], %r6;", VALID, ONLY_STORED),
        ("atom.global.max.u32 %r7, [%d2], %r6;", VALID, ONLY_STORED),
        ("atom.global.add.u32 %r7, [%d2], %r6; setp.eq.and.u32 %p2, %r2, 3, %p1; @%p2 st.global.u32 [%d2+128], %r7;", VALID, ONLY_STORED),
        ("red.global.add.u32 [%d2], %r6;", lambda card_: card_.launch("ld.global.u32 %r2, [%d20+92]; st.global.u32 [%d20+256], %r2;", card_.out), ONLY_STORED),
        ("red.global.add.u32 [%d2], %r6;", lambda card_: card_.read(card_.out, 100), IS_USED),
        ("red.global.add.u32 [%d2], %r6;", lambda card_: card_.launch("ld.global.u32 %r2, [%d20+96]; setp.gt.u32 %p1, %r2, 7; @%p1 st.global.u32 [%d20], 1;", card_.out), IS_USED),
        ("atom.global.add.u32 %r7, [%d2], %r6; setp.gt.u32 %p2, %r7, 5; @%p2 st.global.u32 [%d2+128], 1;", VALID, IS_USED),
        ("red.global.add.u32 [%d2], %r6; red.global.add.u32 [%d2], 1;", VALID, IS_USED),
        ("red.shared.add.u32 [%r5], %r6;", VALID, IS_USED),
    ],
    ids=["sum", "maximum", "what was there", "loaded", "copied", "decides", "what was there decides", "one more", "in shared memory"],
)  # fmt: skip
def test_partial_sums_with_columns_that_nothing_has_written(add, use, code, executed):
    """Each CTA adds its part to the same words, of which the last eight are those of columns that do not exist."""
    card_ = Stored(**executed)
    card_.made = card_.launch(f"{SUMS} {add}", card_.out)
    use(card_)
    assert card_.codes == code


def writes_what_is_there(card_):
    held = card_.device.memory.view(card_.scratch, 128 * CTAS).copy()
    card_.device.copy(card_.scratch, held.ctypes.data, 128 * CTAS)


@pytest.mark.parametrize(
    "then",
    [
        lambda card_: card_.device.fill(card_.scratch, 0, 128 * CTAS),
        writes_what_is_there,
        lambda card_: card_.device.copy(card_.scratch, np.ones(128 * CTAS, np.uint8).ctypes.data, 128 * CTAS),
        lambda card_: card_.device.copy(card_.scratch, card_.out, 128 * CTAS),
        lambda card_: card_.launch(
            "mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %d1, %r3, 4; add.u64 %d2, %d20, %d1; st.global.u32 [%d2], 5;",
            card_.scratch,
        ),
        lambda card_: card_.device.free(card_.scratch),
    ],
    ids=["filled", "the same bytes from the host", "copied from the host", "copied on the card", "by a kernel", "freed"],
)
def test_a_stored_value_that_is_overwritten_was_never_used(then, executed):
    card_ = Stored(**executed)
    then(card_)
    if card_.device.allocation(card_.scratch) is not None:
        card_.read(card_.scratch, 128 * CTAS)
    assert card_.codes == ONLY_STORED


DOUBLES = """mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %d1, %r3, 4; add.u64 %d2, %d20, %d1; add.u64 %d3, %d21, %d1;
ld.global.u32 %r6, [%d2]; add.u32 %r6, %r6, %r6; st.global.u32 [%d3], %r6; bar.sync 0; %THEN"""

CLAMPS = """mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %d1, %r3, 4; add.u64 %d2, %d20, %d1; add.u64 %d3, %d21, %d1;
ld.global.u32 %r6, [%d2]; setp.gt.u32 %p1, %r6, 7; @%p1 bra $kept; mov.u32 %r7, 7; st.global.u32 [%TO], %r7;
$kept:
"""


@pytest.mark.parametrize(
    ("then", "use", "code"),
    [
        ("", lambda card_, at: card_.read(at, 128), ONLY_STORED),  # the host may copy padding with the rest
        ("", lambda card_, at: card_.launch(DOUBLES.replace("%THEN", ""), at, card_.out), ONLY_STORED),
        ("", lambda card_, at: card_.launch("ld.global.u32 %r6, [%d20]; setp.gt.u32 %p1, %r6, 7; @%p1 st.global.u32 [%d21], 1;", at, card_.out), IS_USED),
        ("", lambda card_, at: card_.launch(CLAMPS.replace("%TO", "%d2"), at, card_.out), ONLY_STORED),  # it decides about itself
        ("", lambda card_, at: card_.launch(CLAMPS.replace("%TO", "%d3"), at, card_.out), IS_USED),
        ("", lambda card_, at: card_.launch("@%p9 red.global.add.u32 [%d20], 1;", at), IS_USED),
        ("ld.global.u32 %r7, [%d3]; setp.gt.u32 %p1, %r7, 7; @%p1 st.global.u32 [%d2], 1;", lambda card_, at: None, IS_USED),
    ],
    ids=["copied to the host", "doubled again", "guards", "clamped in place", "clamped elsewhere", "atomic", "guards in the same launch"],
)  # fmt: skip
def test_what_is_made_of_allocated_memory_may_be_stored_but_not_decide(then, use, code, executed):
    card_ = Stored(**executed)
    source, at = card_.device.allocate(128 * CTAS), card_.device.allocate(128 * CTAS)
    card_.device.fill(at, 0, 128 * CTAS)
    card_.device.fill(source + 128 * CTAS - 128, 0, 128)  # the rest is padding
    card_.made = card_.launch(DOUBLES.replace("%THEN", then), source, at)
    use(card_, at)
    assert card_.codes == code


def test_a_remark_says_what_the_host_has_copied():
    card_ = Stored()
    source, at = card_.device.allocate(256), card_.device.allocate(256)
    card_.device.fill(at, 0, 256)
    card_.device.fill(source, 0, 200)
    body = DOUBLES.replace("%r2, 32, %r1", "0, 32, %r1").replace("%THEN", "").replace("[%d2]", "[%d2+128]").replace("[%d3]", "[%d3+128]")
    card_.made = card_.device.launch(card_.device.load(kernel(2, body)).function("k"), 1, 32, [word(source), word(at)])
    card_.read(at, 128)
    assert "the host" not in card_.made.remarks[0].why
    card_.read(at, 256)
    assert card_.codes == ONLY_STORED
    assert "the host has copied the value: 56 bytes, from byte 200 on" in card_.made.remarks[0].why
    assert [half.does for half in card_.made.remarks[0].halves] == ["read", "store", "copy"]


# each CTA stores an uninitialised word of shared memory, as scratch and as its own value: a finding, and what follows
MAXIMUM = """{ .shared .align 4 .b32 mx[32]; mov.u32 %r2, mx; mad.lo.u32 %r2, %r1, 4, %r2;
atom.shared.max.s32 %r3, [%r2], %r1; bar.sync 0; ld.shared.u32 %r3, [%r2]; mul.wide.u32 %d2, %r1, 4; add.u64 %d2, %d2, %d20; st.global.u32 [%d2], %r3; }"""


@pytest.mark.parametrize("body", ["atomic", "stored"])
def test_a_finding_that_the_host_makes_worse_is_not_printed_twice(body):
    """A launch has a finding at once, or when the host uses what it has stored; the host copies three times."""
    device, lines = card(), []
    device.tell = lines.append
    at = device.allocate(128 * CTAS)
    device.launch(device.load(kernel(1, MAXIMUM if body == "atomic" else SCRATCH)).function("k"), CTAS, 32, [word(at)])
    before = sum("R507" in line for line in lines)
    for _ in range(3):
        device.copy(np.zeros(128, np.uint8).ctypes.data, at, 128)
    printed = [line for text in lines for line in text.splitlines() if line.startswith("R507")]
    assert (before > 0, len(printed)) == (body == "atomic", 1), lines
    assert sum("is used now" in line for line in lines) == (body == "stored")


# a bulk copy brings 256 bytes, two stores put each word to two places
TWO_STORES = """{ .shared .align 16 .b8 s[256]; .shared .align 8 .b64 bar; .reg .pred %q; setp.ne.u32 %q, %r1, 0; mov.u32 %r7, s; mov.u32 %r8, bar;
@%q bra $w; mbarrier.init.shared.b64 [%r8], 1; fence.proxy.async.shared::cta; mbarrier.arrive.expect_tx.shared.b64 _, [%r8], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7], [%d20], 256, [%r8];
$w: bar.sync 0; $l: mbarrier.try_wait.parity.shared.b64 %q, [%r8], 0; @!%q bra $l; mov.u32 %r2, 0;
$more: mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %d1, %r3, 4; add.u64 %d3, %d21, %d1; mad.lo.u32 %r4, %r3, 4, %r7; ld.shared.u32 %r6, [%r4];
st.global.u32 [%d3], %r6; st.global.u32 [%d3+256], %r6; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 2; @%p1 bra $more; }"""


def test_a_remark_of_several_stores_says_once_that_the_host_has_copied_the_value():
    card_ = Stored()
    source, at = card_.device.allocate(256), card_.device.allocate(512)
    card_.device.fill(at, 0, 512)
    card_.device.fill(source, 0, 64)  # the rest may be padding
    card_.made = card_.device.launch(card_.device.load(kernel(2, TWO_STORES)).function("k"), 1, 32, [word(source), word(at)])
    for begin, size in ((0, 64), (64, 64), (128, 128), (256, 128), (384, 128)):
        card_.read(at + begin, size)
    assert card_.codes == ONLY_STORED
    remark = card_.made.remarks[0]
    assert [half.does for half in remark.halves].count("copy") == 1
    assert remark.why.count("the host has copied the value: 64 bytes, from byte 0 on; it may be padding") == 1
    assert remark.why.count("it may be padding") == 1


@pytest.mark.parametrize(("shift", "codes"), [(0, {"R507"}), (32, NOTHING)])
def test_a_copy_within_the_card_takes_uninitialised_words_along(shift, codes):
    device = card()
    source, at, out = (device.allocate(256) for _ in range(3))
    device.fill(at, 0, 256)
    written(0, 96)(device, source)
    device.copy(at, source, 128 - shift)
    assert launched(device, EACH.format(row("add.u32 %r2, %r2, %r5;")), at, out)[0] == codes


def test_memory_that_the_host_can_touch_makes_a_store_a_use():
    device = card()
    for kind, codes in (("device", []), ("managed", ["R507"]), ("pinned", ["R507"])):
        at = device.allocate(128 * CTAS, kind)
        run = device.launch(device.load(kernel(1, SCRATCH)).function("k"), CTAS, 32, [word(at)])
        assert [f.code for f in run.findings] == codes


@given(st.integers(1, 4), st.integers(0, 127), st.integers(1, 128))
def test_a_copy_uses_the_bytes_that_it_copies(rows, first, count):
    card_ = Stored()
    host = np.zeros(4096, np.uint8)
    count = min(count, 128 - first)
    card_.device.copy_2d(host.ctypes.data, 128, card_.scratch + first, 128, count, rows)
    assert card_.codes == (IS_USED if first + count > 96 else ONLY_STORED)


def test_a_use_of_a_stored_value_raises_where_the_policy_says_so():
    card_ = Stored(on_finding="raise")
    card_.read(card_.scratch, 96)
    with pytest.raises(FindingsError, match="is read before anything has written it"):
        card_.read(card_.scratch, 97)
    with pytest.raises(CudaError):  # as after a kernel that trapped
        card_.read(card_.scratch, 4)


# ---- Padding of rows: a program copies it with the rows, and does not look at it


# 32 threads have the words of four rows of eight, of which %r21 is the row and %r22 the column.
PLACES = """.shared .align 128 .b8 s[256]; mov.u32 %r20, s; shr.u32 %r21, %r1, 3; and.b32 %r22, %r1, 7; mad.lo.u32 %r23, %r1, 4, %r20;
mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d20, %d1;"""
ROWS = "st.shared.u32 [%r23], %r1;"
FLAT = "ld.shared.u32 %r2, [%r23]; st.global.u32 [%d2], %r2;"
ONE_BY_ONE = """setp.ne.u32 %p2, %r1, 0; @%p2 bra END; mov.u32 %r3, %r20; mov.u64 %d3, %d20; mov.u32 %r4, 0;
NEXT: ld.shared.u32 %r2, [%r3]; st.global.u32 [%d3], %r2; add.u32 %r3, %r3, 4; add.u64 %d3, %d3, 4; STEP
add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 32; @%p3 bra NEXT; END:"""
IN_BULK = """fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 %p2, %r1, 0; @%p2 bra END;
cp.async.bulk.global.shared::cta.bulk_group [%d20], [%r20], 128; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:"""
# a compiler has unrolled the sum over rows
OF_COLUMNS = """bar.sync 0; mad.lo.u32 %r3, %r22, 4, %r20; ld.shared.u32 %r2, [%r3]; ld.shared.u32 %r4, [%r3+32]; ld.shared.u32 %r5, [%r3+64];
mul.lo.u32 %r2, %r2, 3; mad.lo.u32 %r2, %r4, 5, %r2; mad.lo.u32 %r2, %r5, 7, %r2; st.global.u32 [%d2], %r2;"""
# eight threads move a structure of four words each to another place
STRUCTURES = """bar.sync 0; setp.lt.u32 %p2, %r1, 8; @!%p2 bra END; mad.lo.u32 %r3, %r1, 16, %r20; xor.b32 %r4, %r1, 1; mul.wide.u32 %d3, %r4, 16;
add.u64 %d3, %d20, %d3; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r3]; st.global.v4.u32 [%d3], {%r4, %r5, %r6, %r7}; END:"""
SKIPS = "and.b32 %r5, %r4, 7; setp.eq.u32 %p4, %r5, 7; @%p4 sub.u64 %d3, %d3, 8;"  # rows of six follow one another


def tile(is_written, copy=FLAT):
    return f"{PLACES} {is_written} @%p1 {ROWS} bar.sync 0; {copy}"


PADDED = "setp.lt.u32 %p1, %r22, 6;"
ALL_OF_IT = lambda card_, at: card_.device.copy(np.zeros(128, np.uint8).ctypes.data, at, 128)  # noqa: E731
PAD_ALONE = lambda card_, at: card_.device.copy(np.zeros(8, np.uint8).ctypes.data, at + 24, 8)  # noqa: E731
NO_PAD = lambda card_, at: card_.device.copy_2d(np.zeros(96, np.uint8).ctypes.data, 24, at, 32, 24, 4)  # noqa: E731
DECIDES = "ld.global.u32 %r2, [%d20+28]; setp.gt.u32 %p1, %r2, 7; @%p1 st.global.u32 [%d20], 1;"


@pytest.mark.parametrize(
    ("body", "use", "code"),
    [
        (tile(PADDED), ALL_OF_IT, ONLY_STORED),
        (tile(PADDED, FLAT.replace("st.", "add.u32 %r2, %r2, 1; st.")), ALL_OF_IT, ONLY_STORED),
        (tile(PADDED, ONE_BY_ONE.replace("STEP", "")), ALL_OF_IT, ONLY_STORED),
        (tile(PADDED), NO_PAD, ONLY_STORED),
        (tile("setp.gt.u32 %p1, %r22, 1;"), ALL_OF_IT, ONLY_STORED),  # in front of the rows
        (tile(PADDED).replace("u32 [%r23]", "u8 [%r23]").replace(".u32 %r2,", ".u8 %r2,").replace("%r1, 4, %r20", "%r1, 1, %r20").replace(
            "st.global.u32 [%d2]", "sub.u64 %d2, %d2, %d1; cvt.u64.u32 %d3, %r1; add.u64 %d2, %d2, %d3; st.global.u8 [%d2]"), ALL_OF_IT, ONLY_STORED),
        (tile(PADDED, IN_BULK), ALL_OF_IT, ONLY_STORED),
        (tile("and.b32 %r5, %r1, 3; setp.ne.u32 %p1, %r5, 3;", STRUCTURES), ALL_OF_IT, ONLY_STORED),
        (tile(PADDED, OF_COLUMNS), ALL_OF_IT, ONLY_STORED),
        # wrong ones
        (tile(PADDED, OF_COLUMNS), PAD_ALONE, IS_USED),
        (tile("setp.ne.u32 %p1, %r1, 13;", OF_COLUMNS), ALL_OF_IT, IS_USED),
        (tile("setp.ne.u32 %p1, %r1, 13;", IN_BULK), NO_PAD, IS_USED),
        (tile("setp.lt.u32 %p1, %r1, 24;", IN_BULK), NO_PAD, IS_USED),
        (tile(PADDED), PAD_ALONE, IS_USED),
        (tile(PADDED), lambda card_, at: card_.device.launch(card_.device.load(kernel(1, DECIDES)).function("k"), 1, 32, [word(at)]), IS_USED),
        (tile("setp.lt.u32 %p1, %r1, 24;"), ALL_OF_IT, IS_USED),  # the last row is missing
        (tile("setp.ne.u32 %p1, %r1, 13;"), ALL_OF_IT, IS_USED),  # a hole
        (tile(PADDED, FLAT.replace("[%r23]", "[%r23+4]")), lambda card_, at: card_.device.copy(np.zeros(28, np.uint8).ctypes.data, at, 28), IS_USED),
        (tile(PADDED, ONE_BY_ONE.replace("STEP", SKIPS)), ALL_OF_IT, IS_USED),  # rows of another length
        (tile(PADDED, FLAT.replace("[%d2]", "[%d3]").replace("ld.", "mad.lo.u32 %r5, %r22, 4, %r21; mul.wide.u32 %d3, %r5, 4; add.u64 %d3, %d20, %d3; ld.", 1)),
         ALL_OF_IT, IS_USED),  # transposed
        (tile(PADDED, FLAT.replace("st.", "shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1; add.u32 %r2, %r2, %r3; st.")), PAD_ALONE, IS_USED),
    ],
    ids=[
        "copied", "changed alone", "by one thread", "left out by the host", "in front", "of bytes", "in bulk", "of structures", "sums of columns", "the host gets sums alone", "a hole in a sum", "a hole, in bulk", "a row is missing, in bulk",
        "the host gets it alone", "it decides", "a row is missing", "a hole", "the next word", "rows of another length", "transposed", "added up",
    ],
)  # fmt: skip
def test_the_padding_of_a_tile_in_shared_memory_may_be_copied_with_its_rows(body, use, code):
    padded_tile(body, use, code)


# 32 threads fill four rows of a tile, and copy them: %r2 is the column, %p1 says whether it is written.
WIDE = """.shared .align 128 .b8 s[1024]; setp.lt.u32 %p2, %r1, 32; mov.u32 %r20, s; mad.lo.u32 %r21, %r1, 4, %r20; mul.wide.u32 %d1, %r1, 4;
add.u64 %d2, %d20, %d1; IS_WRITTEN EACH"""
WRITES = "@%p1 st.shared.u32 [%r21+{0}], %r1;"
COPIES = "ld.shared.u32 %r4, [%r21+{0}]; st.global.u32 [%d2+{0}], %r4;"


@pytest.mark.parametrize(
    ("pitch", "is_written", "code"),
    [
        (32, "setp.lt.u32 %p1, %r1, 31;", IS_USED),
        (32, "setp.ne.u32 %p1, %r1, 9;", IS_USED),
        (32, "setp.lt.u32 %p1, %r1, 16;", IS_USED),
        (32, "and.b32 %r3, %r1, 1; setp.eq.u32 %p1, %r3, 0;", IS_USED),
        (33, "setp.lt.u32 %p1, %r1, 32;", ONLY_STORED),
        (36, "setp.lt.u32 %p1, %r1, 32;", ONLY_STORED),
        (36, "setp.ne.u32 %p1, %r1, 9;", IS_USED),
    ],
    ids=[
        "the last column",
        "a column",
        "half of them",
        "every second one",
        "padding of a word",
        "padding of four words",
        "a column of a tile with padding",
    ],
)
@pytest.mark.parametrize("is_bulk", [False, True], ids=["threads", "bulk"])
def test_columns_that_a_kernel_forgets_are_no_padding(pitch, is_written, code, is_bulk):
    """A tile of four rows; rows of more than 32 columns have words that nobody writes at their end."""
    size = 16 * pitch
    copies = IN_BULK.replace("128;", f"{size};", 1) if is_bulk else "bar.sync 0; " + "".join(COPIES.format(n) for n in range(0, size, 128))
    if not is_bulk and size % 128:
        copies = copies.replace(
            COPIES.format(size // 128 * 128),
            f"setp.lt.u32 %p3, %r1, {size % 128 // 4}; @!%p3 bra SKIP; {COPIES.format(size // 128 * 128)} SKIP:",
        )
    body = WIDE.replace("IS_WRITTEN", is_written).replace("EACH", "".join(WRITES.format(4 * pitch * n) for n in range(4))) + copies
    card_ = Stored()
    at = card_.device.allocate(size)
    card_.device.fill(at, 0, size)
    card_.made = card_.device.launch(card_.device.load(kernel(1, body)).function("k"), 1, 32, [word(at)])
    card_.read(at, size)
    assert card_.codes == code
    if code is ONLY_STORED and not is_bulk:
        assert f"bytes 128 to {4 * pitch - 1} of each {4 * pitch} bytes" in card_.made.remarks[0].why


@pytest.mark.parametrize(("is_written", "code"), [(PADDED, ONLY_STORED), ("setp.ne.u32 %p1, %r1, 13;", IS_USED)], ids=["padding", "a hole"])
def test_padding_of_a_tile_is_known_however_the_launch_is_executed(is_written, code, executed):
    padded_tile(tile(is_written), ALL_OF_IT, code, **executed)


def padded_tile(body, use, code, **policy):
    card_ = Stored(**policy)
    at = card_.device.allocate(128)
    card_.device.fill(at, 0, 128)
    card_.made = card_.device.launch(card_.device.load(kernel(1, body)).function("k"), 1, 32, [word(at)])
    use(card_, at)
    assert card_.codes == code


# Each thread makes an element of D: four products of A, of rows of four, and B, of rows of eight.
SUM = """mov.f32 %f1, 0f00000000; mov.u32 %r4, 0; mad.lo.u32 %r5, %r21, 16, 0; mul.wide.u32 %d3, %r5, 4; add.u64 %d3, %d21, %d3;
mul.wide.u32 %d4, %r22, 4; add.u64 %d4, %d22, %d4; NEXT: ld.global.f32 %f2, [%d3]; ld.global.f32 %f3, [%d4]; fma.rn.f32 %f1, %f2, %f3, %f1;
add.u64 %d3, %d3, 4; add.u64 %d4, %d4, 32; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 4; @%p1 bra NEXT; st.global.f32 [%d2], %f1;"""


@pytest.mark.parametrize(
    ("unwritten", "use", "code"),
    [
        (("B", np.s_[:, 6:]), ALL_OF_IT, ONLY_STORED),
        (("B", np.s_[:, 6:]), NO_PAD, ONLY_STORED),
        (("B", np.s_[:, 6:]), PAD_ALONE, IS_USED),
        (("B", np.s_[3:, 6:]), ALL_OF_IT, IS_USED),  # the last k of them
        (("B", np.s_[:1, 6:]), ALL_OF_IT, IS_USED),
        (("B", np.s_[3:]), ALL_OF_IT, IS_USED),
        (("A", np.s_[3:, :4]), ALL_OF_IT, IS_USED),  # a row
    ],
    ids=["columns", "left out by the host", "the host gets them alone", "a part of K", "the first of K", "k of all columns", "a row"],
)  # fmt: skip
def test_columns_of_a_product_that_are_padding_may_be_copied_with_its_rows(unwritten, use, code):
    card_ = Stored()
    at, a, b = (card_.device.allocate(size) for size in (128, 256, 128))
    for array, name in ((a, "A"), (b, "B")):
        where = np.zeros((4, 16 if name == "A" else 8), bool)
        if unwritten[0] == name:
            where[unwritten[1]] = True
        held = card_.device.view(array, where.size * 4).view(np.float32).reshape(where.shape)
        held[~where] = 1.5
    card_.made = card_.device.launch(card_.device.load(kernel(3, PLACES + SUM)).function("k"), 1, 32, [word(n) for n in (at, a, b)])
    use(card_, at)
    assert card_.codes == code


def test_a_sum_of_results_is_a_result():
    card_ = Stored()
    source, first, last = (card_.device.allocate(128) for _ in range(3))
    written(0, 96)(card_.device, source)
    add = EACH.format(row("add.u32 %r2, %r2, %r5;"))
    card_.made, _ = (
        card_.device.launch(card_.device.load(kernel(2, add)).function("k"), 1, 32, [word(at) for at in pair])
        for pair in ((source, first), (first, last))
    )
    assert card_.codes == ONLY_STORED
    card_.read(last, 4)
    assert card_.codes == IS_USED


def test_many_stores_of_values_that_nothing_has_written_are_followed_one_by_one():
    """As those of thousands of launches."""
    card_ = Stored()
    memory, many = card_.device.taint.memory, 5000
    taint = memory.taint
    told = []
    doubts = [
        SimpleNamespace(
            findings=None,
            is_pad=False,
            is_gap=False,
            is_used=False,
            is_told=False,
            use=lambda by, in_kernel, n=n: told.append(n) or True,
            copied=lambda *given: False,
        )
        for n in range(many)
    ]
    at = card_.device.allocate(4 * many)
    region = memory.holding(at, at + 4)
    taint.put(region, np.arange(many) * 4 + at - region.words_begin, 4, np.array([taint.number_of([doubt]) for doubt in doubts], np.int32))
    card_.launch("mov.u32 %r2, 0;")
    assert (told, card_.codes) == ([], ONLY_STORED)
    card_.read(at + 4 * 4321, 4)
    assert told == [4321]
    for _ in range(2):  # half of them are over: these are forgotten
        card_.device.fill(at, 0, 2 * many)
        card_.launch("mov.u32 %r2, 0;")
    taint.sweep()
    card_.read(at, 4 * many)
    assert sorted(told) == [*range(many // 2, 4322), *range(4321, many)]


FROZEN = """
import gc
from smemsim.virtual import VirtualDevice
for _ in range(20):
    device = VirtualDevice()
    device.itself = device
    del device
    gc.freeze()
"""


def test_devices_that_nobody_uses_make_room_though_the_collector_was_told_to_leave_them():
    """In a process that has little else: here the collector would go through all that the tests have made."""
    subprocess.run([sys.executable, "-c", FROZEN], check=True)
