"""Laws of addresses out of bounds: which array was meant, how far away it is, and with which error a card ends."""

import numpy as np
import pytest

from smemsim import Gpu

HEAD = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q, .param .u64 at) {
.reg .b32 %r<40>; .reg .b64 %d<20>; .shared .align 16 .b8 sm[256];
ld.param.u64 %d1, [at];
"""
LOADS = {1: "ld.global.u8 %r1, [%d1+16];", 4: "ld.global.u32 %r1, [%d1+16];", 16: "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1+16];"}
FAR = 1 << 20  # bytes from an array of less than that


def said(body: str, place, **how):
    """(addresses of the arrays, what the only finding says in front of the access, its reason, its fix)."""
    gpu = Gpu("sm_90a")
    arrays = gpu.zeros(25, np.uint32), gpu.zeros(300, np.uint32)
    begins = [array.address for array in arrays]
    value = place(*begins) % (1 << 64) if callable(place) else place
    run = gpu.launch(f"{HEAD}{body}\nret;\n}}", "k", block=1, args=[*arrays, np.uint64(value)], progress=False, **how)
    if not run.findings:
        return begins, "", "", ""
    (finding,) = run.findings
    assert finding.code == "X001"
    return begins, finding.message.partition("; access:")[0], finding.why, finding.repair


@pytest.mark.parametrize("size", LOADS)
def test_an_address_out_of_bounds_has_its_distance_from_the_array_that_is_near(size):
    for n, bytes_, name in ((0, 100, "arg0 (p)"), (1, 1200, "arg1 (q)")):
        for to in (
            -4096,
            -16,
            0,
            (bytes_ - 1) // size * size,
            -(-bytes_ // size) * size,
            bytes_ // 16 * 16 + 16,
            bytes_ // 16 * 16 + 160,
            8192,
        ):
            begins, what, why, fix = said(LOADS[size], lambda *at, n=n, to=to: at[n] + to - 16)
            array = f"the array of {name}, {bytes_} bytes at {begins[n]:#x}"
            if to >= 0 and to + size <= bytes_:
                assert what == ""
                continue
            place = (
                f"{-to} bytes before" if to < 0
                else f"{to + size - bytes_} of them past the end of" if to < bytes_
                else "right after" if to == bytes_ else f"{to - bytes_} bytes past the end of"
            )  # fmt: skip
            bytes_are = f"{size} byte{'s' * (size > 1)} at global address {begins[n] + to:#x} {'are' if size > 1 else 'is'}"
            assert what == f"{bytes_are} out of bounds: {place} {array}"
            assert why == "a GPU faults only if no memory is mapped there; otherwise the access reaches another allocation"
            assert fix == "guard the access, or make the array large enough"


@pytest.mark.parametrize("is_value", [True, False])
def test_an_address_far_from_all_arrays_is_a_pointer_that_was_never_one(is_value):
    load = f"ld.global.u32 %r1, [%d1+{0 if is_value else 16}];"
    for below in (FAR - 16, FAR, FAR + 16, 1 << 30, (1 << 40) - 16, 1 << 40, 1 << 41):
        begins, what, why, fix = said(load, lambda p, q, below=below: p - below - 16 * (not is_value))
        at = begins[0] - below
        if below <= FAR:
            assert what.endswith(f"{below} bytes before the array of arg0 (p), 100 bytes at {begins[0]:#x}")
            continue
        away = f": the nearest one is {below:,} bytes away" if below < 1 << 40 else ""
        named = ", the value of arg2 (at)" if is_value else ""
        assert what == f"4 bytes at global address {at:#x} are out of bounds: no array is near{away}{named}"
        assert why == "a GPU faults (CUDA error 700), unless other memory is mapped there"
        assert fix.startswith("pass the address of an array as arg2 (at)" if is_value else "check the pointer: a host pointer")


def test_small_numbers_are_null_pointers_and_large_ones_are_negative():
    load = "ld.global.u32 %r1, [%d1+16];"
    for at in (16, 20, 4092):
        _, what, _, fix = said(load, at - 16)
        assert what.endswith(f"out of bounds: a null pointer and an offset of {at}")
        assert fix == "pass an array for the pointer"
    for at in (4096, 8192):
        assert said(load, at - 16)[1].endswith("out of bounds: no array is near")
    for below in (4, 400, FAR, FAR + 4, 1 << 30):
        _, what, _, _ = said(load, lambda p, q, below=below: -below - 16)
        ends = f": the address is -{below} as a signed number" if below <= FAR else ": no array is near"
        assert what.endswith(ends), below


WINDOW, ROOM = 0x400, 256


@pytest.mark.parametrize("cluster", [1, 2])
def test_a_shared_address_out_of_bounds_ends_with_the_error_of_its_rank(cluster):
    """Measured on an H200: without a cluster a rank is an illegal instruction (715), in one a rank from 16 on is, and one that
    the cluster has not is a launch failure (719); a place after the window is an illegal address (700).
    """
    how = {"grid": cluster, "cluster": cluster, "sanitize": False} if cluster > 1 else {}
    load = "cvt.u32.u64 %r2, %d1; ld.shared::cluster.u32 %r1, [%r2];" if cluster > 1 else "cvt.u32.u64 %r2, %d1; ld.shared.u32 %r1, [%r2];"
    for rank in (0, 1, 2, 15, 16, 17, 255):
        for offset in (0, ROOM - 4, ROOM, ROOM + 4, ROOM + 400):
            at = (rank << 24) + WINDOW + offset
            _, what, why, fix = said(load, at, **how)
            if rank < cluster and offset < ROOM:
                assert what == ""
                continue
            error = 715 if rank and (cluster == 1 or rank >= 16) else 719 if rank >= cluster else 700
            assert why == f"the access traps: CUDA error {error}"
            begins = f"4 bytes at shared address {at:#x} are out of bounds: "
            if rank >= cluster:
                assert what == f"{begins}bits 31:24 name rank {rank}; the cluster has {cluster} CTA{'s' * (cluster > 1)}"
                assert fix == "give mapa a rank of the cluster"
            else:
                past = "right after" if offset == ROOM else f"{offset - ROOM} bytes past"
                assert what == f"{begins}{past} the end of the CTA's shared memory (0x400 to 0x4ff; the last array is sm)"
                assert fix == "check the index, or make sm larger"


@pytest.mark.parametrize("dynamic", [0, 128])
def test_bytes_that_cross_the_end_of_shared_memory_are_counted(dynamic):
    end = WINDOW + ROOM + dynamic
    for address in (end - 16, end - 8, end):
        _, what, _, fix = said("cvt.u32.u64 %r2, %d1; ld.shared.v4.u32 {%r1, %r3, %r4, %r5}, [%r2];" if address % 16 == 0 else "cvt.u32.u64 %r2, %d1; ld.shared.v2.u32 {%r1, %r3}, [%r2];", address, shared_bytes=dynamic)  # fmt: skip
        assert bool(what) == (address == end)
        if what:
            last = "" if dynamic else "; the last array is sm"
            assert what.endswith(f": right after the end of the CTA's shared memory (0x400 to {end - 1:#x}{last})")
            assert fix.startswith("check the index, or launch with more dynamic" if dynamic else "check the index, or make sm larger")


@pytest.mark.parametrize(("ctas", "first", "left"), [(1, 7, 0), (1, 6, 1), (1, 3, 4), (2, 7, 1), (2, 6, 3), (3, 2, 17)])
def test_the_threads_of_an_access_are_counted_and_the_first_is_named(ctas, first, left):
    body = f"""mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mad.lo.u32 %r1, %r2, 4, %r1; setp.lt.u32 %p1, %r1, {first}; @%p1 ret;
    ld.global.u32 %r1, [%d1];"""
    gpu = Gpu("sm_90a")
    array = gpu.zeros(25, np.uint32)
    text = f"{HEAD.replace('.reg .b32', '.reg .pred %p<3>; .reg .b32')}{body}\nret;\n}}"
    run = gpu.launch(text, "k", grid=ctas, block=(4, 2), args=[array, array, np.uint64(array.address + 100)], progress=False)
    more = f" (and {left} more thread{'s' * (left > 1)}{f', in {ctas} CTAs' * (ctas > 1)})" if left else ""
    (finding,) = run.findings
    assert f"access: thread ({first % 4}, {first // 4}, 0) of CTA (0, 0, 0){more} (ld.global.u32)" in finding.message


@pytest.mark.parametrize(
    ("load", "align"),
    [("u16 %r1", 2), ("u32 %r1", 4), ("v2.u32 {%r1, %r2}", 8), ("v2.u16 {%h1, %h2}", 4), ("v4.u32 {%r1, %r2, %r3, %r4}", 16)],
)
def test_an_address_is_a_multiple_of_what_the_access_needs(load, align):
    register = load.replace("%r1", "%h1") if load.startswith("u16") else load
    for offset in range(16):
        for space, where in (("global", "%d1"), ("shared", "%r9")):
            gpu = Gpu("sm_90a")
            array = gpu.zeros(25, np.uint32)
            value = array.address + offset if space == "global" else WINDOW + offset
            text = f"{HEAD.replace('.reg .b32', '.reg .b16 %h<3>; .reg .b32')}cvt.u32.u64 %r9, %d1; ld.{space}.{register}, [{where}];\nret;\n}}"
            run = gpu.launch(text, "k", block=1, args=[array, array, np.uint64(value)], progress=False, sanitize=False)
            says = [f.message.partition("; access:")[0] for f in run.findings]
            wrong = f"{space} address {value:#x} is not a multiple of the {align} bytes that the access needs"
            assert says == ([wrong] if offset % align else [])
            assert all(
                f"align the array and its offsets to {align} bytes" in f.repair and f.why.endswith("CUDA error 716") for f in run.findings
            )


def test_the_distance_behind_the_last_array_is_that_of_the_last_byte():
    gpu = Gpu("sm_90a")
    arrays = [gpu.zeros(25, np.uint32) for _ in range(2)]
    text = f"{HEAD}ld.global.u32 %r1, [%d1+16];\nret;\n}}"
    for above in (1 << 30, 1 << 39):
        at = arrays[1].address + above
        run = gpu.launch(text, "k", block=1, args=[*arrays, np.uint64(at - 16)], progress=False, sanitize=False)
        away = int(run.findings[0].message.partition("nearest one is ")[2].partition(" ")[0].replace(",", ""))
        ends = {at + 4 - away}
        run = gpu.launch(text, "k", block=1, args=[*arrays, np.uint64(min(ends) - 16)], progress=False, sanitize=False)
        assert "right after" in run.findings[0].message
