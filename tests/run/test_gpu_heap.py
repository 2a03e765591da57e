"""The heap of kernels: what malloc gives, what is outside of it, and what stays over launches."""

import numpy as np
import pytest

from launches import SHARED, Device, kernel
from smemsim import Gpu, Unmodelled
from smemsim.core.spec.heap import HEAP
from smemsim.virtual import CudaError, Policy, VirtualDevice

CALLS = ".extern .func (.param .b64 out) malloc(.param .b64 size);\n.extern .func free(.param .b64 pointer);\n" + SHARED
SLOT = "mul.wide.u32 %d5, %r1, 8; add.u64 %d5, %d20, %d5;"  # of a thread in the first array


def malloc(size, to="%d1"):
    return f"{{ .param .b64 a; .param .b64 b; st.param.b64 [a], {size}; call.uni (b), malloc, (a); ld.param.b64 {to}, [b]; }}"


def free(pointer="%d1"):
    return f"{{ .param .b64 a; st.param.b64 [a], {pointer}; call.uni free, (a); }}"


def text(body, parameters=1):
    return kernel(parameters, body, variables=CALLS)


def found(body, block=1):
    gpu = Gpu("sm_90a")
    run = gpu.launch(text(body), block=block, args=[gpu.zeros(64, np.uint64)], progress=False)
    return {f.code: f.message for f in run.findings}, run.launch.status


def test_every_thread_gets_bytes_of_its_own():
    gpu, sizes = Gpu("sm_90a"), (np.arange(64) % 7 * 24).astype(np.uint64)
    a = gpu.array(sizes)
    run = gpu.launch(
        text(f"{SLOT} ld.global.u64 %d2, [%d5]; {malloc('%d2')} st.global.u64 [%d5], %d1;"), block=64, args=[a], progress=False
    )
    at = a.numpy()
    assert run.findings == []
    assert (at % HEAP.align == 0).all()
    assert (at != 0).all()
    order = np.argsort(at)
    assert (at[order][1:] >= (at + sizes)[order][:-1]).all()


def test_what_one_launch_stores_a_later_one_reads_and_gives_back():
    card = Device("sm_90a")
    a = card.array(np.zeros(32, np.uint64))
    for body in (
        f"{SLOT} {malloc(8)} st.u64 [%d1], %d20; st.global.u64 [%d5], %d1;",
        f"{SLOT} ld.global.u64 %d1, [%d5]; ld.u64 %d2, [%d1]; {free()} st.global.u64 [%d5], %d2;",
    ):
        assert card.launch(text(body), block=32, args=[a]).result.findings == {}
    assert (a.numpy() == a.address).all()
    assert card.memory.heap.used == 0


@pytest.mark.parametrize("size", [1, 100, 4096, 100000, 4000000])
def test_a_full_heap_gives_a_null_pointer_and_what_is_given_back_is_there_again(size):
    memory = Gpu("sm_90a").memory
    heap = memory.heap
    heap.is_littered = False
    got = [heap.allocate(size, 1, "k", memory.heap_array) for _ in range(min(200, HEAP.capacity(heap.limit) // HEAP.units(size)))]
    heap.limit = 0
    heap.used = HEAP.capacity(HEAP.least_bytes)
    assert all(got)
    assert heap.allocate(size, 1, "k", memory.heap_array) == 0
    heap.free(got[0], 2, "k")
    heap.used = min(heap.used, HEAP.capacity(HEAP.least_bytes) - HEAP.units(size))
    assert heap.allocate(size, 3, "k", memory.heap_array) not in {0, *got}


@pytest.mark.parametrize(
    ("body", "says", "status"),
    [
        (f"{malloc(64)} st.u32 [%d1+64], %r1;", "0 bytes past the end of allocation 1", 700),
        (f"{malloc(64)} ld.u64 %d2, [%d1+60];", "", 716),
        (f"{malloc(60)} ld.u64 %d2, [%d1+56];", "4 of them past the end of allocation 1", 700),
        (f"{malloc(64)} {free()} st.u32 [%d1+60], %r1;", "has freed", 700),
        (f"{malloc(64)} st.u32 [%d1+60], %r1; {free()} st.u32 [%d1], %r1;", "has freed", 700),
        (f"{malloc(64)} {free()} {free()}", "has given back already", 719),
        (f"{malloc(64)} add.u64 %d1, %d1, 16; {free()}", "16 bytes after the begin", 700),
        (free("%d20"), "did not give", 700),
        (f"{malloc(-1)} st.u8 [%d1], %r1;", "0 bytes past the end of allocation 1", 700),  # no bytes: rounded up in 64 bits
    ],
)
def test_what_is_outside_of_all_allocations_is_found(body, says, status):
    codes, ended = found(body)
    assert set(codes) == {"X002" if status == 716 else "X001"}
    assert says in codes.popitem()[1]
    assert ended == status


def test_bytes_that_nobody_has_written_are_found_where_they_are_used():
    use = "ld.u32 %r2, [%d1]; setp.eq.u32 %p1, %r2, 5; @%p1 st.global.u32 [%d20], %r1;"
    assert set(found(f"{malloc(64)} {use}")[0]) == {"R507"}
    field = "st.u64 [%d1+8], %d20; st.u8 [%d1+5], %r1;"  # of a node, and a byte of another word
    assert set(found(f"{malloc(16)} {field} {use}")[0]) == {"R507"}
    assert found(f"{malloc(16)} {field} {use.replace('%d1', '%d1+8')}")[0] == {}
    assert set(found(f"{malloc(16)} {field} {use.replace('%d1', '%d1+4')}")[0]) == {"R507"}
    assert found(f"{malloc(16)} {field} {use.replace('ld.u32 %r2, [%d1]', 'ld.u8 %r2, [%d1+5]')}")[0] == {}
    assert found(f"{malloc(64)} st.u32 [%d1], %r1; {use}")[0] == {}
    assert found(f"mov.u64 %d1, 0; {free()}") == ({}, 0)


@pytest.mark.parametrize("schedule", ["latest", 3])
def test_bytes_that_a_schedule_lets_come_late_have_been_written(schedule):
    gpu, use = Gpu("sm_90a"), "ld.u32 %r2, [%d1+4]; setp.eq.u32 %p1, %r2, 5; @%p1 st.global.u32 [%d20], %r1;"
    for store, codes in (("st.u32 [%d1+4], %r1;", []), ("st.u32 [%d1], %r1;", ["R507"])):
        run = gpu.launch(text(f"{malloc(64)} {store} {use}"), block=1, args=[gpu.zeros(64, np.uint64)], schedule=schedule, progress=False)
        assert [f.code for f in run.findings] == codes


def test_schedules_of_a_kernel_that_allocates_are_not_compared():
    gpu = Gpu("sm_90a")
    with pytest.raises(Unmodelled, match="malloc"):
        gpu.launch(text(malloc(8)), block=1, args=[gpu.zeros(1, np.uint64)], schedule="all:1", progress=False)


def test_the_heap_has_its_size_once_a_kernel_has_allocated():
    device = VirtualDevice("sm_90a", policy=Policy(quiet=True))
    device.set_limit(2, 1000)
    assert device.attributes.limits[2] == HEAP.least_bytes
    to = device.allocate(8)
    body = f"{malloc(3 << 20)} st.global.u64 [%d20], %d1;"
    for _ in range(2):
        device.launch(device.load(text(body)).function("k"), 1, 1, [to.to_bytes(8, "little")])
    assert not device.view(to, 8).any()
    device.launch(device.load(text(f"{malloc(64)} st.global.u64 [%d20], %d1;")).function("k"), 1, 1, [to.to_bytes(8, "little")])
    own = int(device.view(to, 8).view(np.uint64)[0])
    with pytest.raises(CudaError):
        device.set_limit(2, 1 << 25)
    with pytest.raises(CudaError):
        device.copy(to, own, 8)
    device.fill(own, 0, 8)
    assert own
    assert not device.view(own, 8).any()
