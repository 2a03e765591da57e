"""Loads, stores, atomics and copies of the executor against numpy, over every state space, and the traps of wrong
addresses.
"""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptx_kernels
from launches import Device, found, kernel, launch, refused, results
from smemsim import Gpu, InputError, Unmodelled
from smemsim.core.machine import Owners
from smemsim.virtual import Policy, VirtualDevice
from strategies import examples

N = 64
RNG = np.random.default_rng(7)
BYTES = RNG.integers(0, 256, 32 * N, dtype=np.uint8)
AT = "mul.wide.u32 %d1, %r1, {0}; add.u64 %d2, %d20, %d1; add.u64 %d3, %d21, %d1; "


ELEMENTS = ".global .align 8 .u64 table[40] = {{{}}};\n.shared .align 4 .b32 words[64];\n".format(", ".join(str(n * n) for n in range(40)))


@pytest.mark.parametrize(
    ("load", "wanted"),
    [
        ("ld.global.u64 %d3, table[%r1];", lambda n: n * n),
        ("ld.global.u64 %d3, table[%r1+2];", lambda n: (n + 2) ** 2),
        ("add.u32 %r2, %r1, 3; ld.global.u64 %d3, table[%r2-1];", lambda n: (n + 2) ** 2),
        ("cvt.u64.u32 %d4, %r1; ld.global.u64 %d3, table[%d4];", lambda n: n * n),
        ("mul.lo.u32 %r2, %r1, 7; st.shared.u32 words[%r1], %r2; ld.shared.u32 %r3, words[%r1]; cvt.u64.u32 %d3, %r3;", lambda n: 7 * n),
    ],
)
def test_an_element_of_an_array_is_found_by_a_register(load, wanted):
    """As ptxas has it, `array[%r]` counts elements (PTX ISA 6.4.2); Dr.Jit finds its functions so."""
    gpu, out = Gpu("sm_90a"), np.zeros(32, np.uint64)
    body = f"{load} mul.wide.u32 %d1, %r1, 8; add.u64 %d2, %d20, %d1; st.global.u64 [%d2], %d3;"
    placed = gpu.array(out)
    run = gpu.launch(kernel(1, body, variables=ELEMENTS), "k", block=32, args=[placed])
    assert not run.findings
    assert placed.numpy().tolist() == [wanted(n) for n in range(32)]


@pytest.mark.parametrize("index", ["%h1", "%p9", "%f1"])
def test_an_element_of_an_array_is_found_by_whole_registers_alone(index):
    with pytest.raises(InputError, match="an index is a number, or a register of 32 or 64 bits"):
        Gpu("sm_90a").launch(kernel(0, f"ld.global.u64 %d3, table[{index}];", variables=ELEMENTS), "k", block=32)


@pytest.mark.parametrize(
    ("kind", "vector"),
    [(kind, vector) for kind in ("b8", "b16", "b32", "b64", "u8", "s16", "f32", "f64") for vector in ("", ".v2", ".v4")
     if int(kind[1:]) * int(vector[2:] or 1) <= 128],
)  # fmt: skip
@pytest.mark.parametrize("through", ["global", "generic", "shared", "generic shared", "local"])
def test_what_is_stored_is_loaded(kind, vector, through):
    """Every width, vector and space keeps the bytes, signalling NaNs and all."""
    bits = int(kind[1:])
    count = int(vector[2:] or 1)
    size = count * bits // 8
    prefix = {8: "%h", 16: "%h", 32: "%f" if kind == "f32" else "%r1", 64: "%g" if kind == "f64" else "%d1"}[bits]
    names = [f"{prefix}{n}" for n in range(1, 1 + count)]
    value = "{" + ", ".join(names) + "}" if count > 1 else names[0]
    copy = f"ld.global{vector}.{kind} {value}, [%d2]; "
    if through == "generic":
        copy = f"ld{vector}.{kind} {value}, [%d2]; "
    elif through == "shared":
        copy += f"mov.u32 %r40, sm; mad.lo.u32 %r40, %r1, {size}, %r40; st.shared{vector}.{kind} [%r40], {value}; "
        copy += f"ld.shared::cta{vector}.{kind} {value}, [%r40]; "
    elif through == "generic shared":
        copy += f"mov.u64 %d30, sm; cvta.shared.u64 %d30, %d30; add.u64 %d30, %d30, %d1; st{vector}.{kind} [%d30], {value}; "
        copy += f"cvta.to.shared.u64 %d31, %d30; ld.shared{vector}.{kind} {value}, [%d31]; "
    elif through == "local":
        copy += f"st.local{vector}.{kind} [loc+16], {value}; mov.u64 %d30, loc; cvta.local.u64 %d30, %d30; ld{vector}.{kind} {value}, [%d30+16]; "
    store = f"st.global{vector}.{kind} [%d3], {value};" if through != "generic" else f"st{vector}.{kind} [%d3], {value};"
    text = {"locals_": ".local .align 16 .b8 loc[64];"}
    _, out = launch(AT.format(size) + copy + store, BYTES, np.zeros_like(BYTES), block=N, text=text)
    np.testing.assert_array_equal(out[: N * size], BYTES[: N * size])
    assert not out[N * size :].any()


@pytest.mark.parametrize(("kind", "dtype"), [("u8", np.uint8), ("s8", np.int8), ("u16", np.uint16), ("s16", np.int16)])
def test_narrow_loads_extend_by_their_sign(kind, dtype):
    size = np.dtype(dtype).itemsize
    body = AT.format(size) + f"ld.global.{kind} %r2, [%d2]; mul.wide.u32 %d1, %r1, 4; add.u64 %d3, %d21, %d1; st.global.b32 [%d3], %r2;"
    _, out = launch(body, BYTES, np.zeros(N, np.int32), block=N)
    np.testing.assert_array_equal(out, BYTES.view(dtype)[:N].astype(np.int32))


def test_128_and_256_bits():
    body = AT.format(16) + "ld.global.b128 %q1, [%d2]; st.global.b128 [%d3], %q1;"
    _, out = launch(body, BYTES, np.zeros_like(BYTES), block=N)
    np.testing.assert_array_equal(out[: 16 * N], BYTES[: 16 * N])
    eight = ", ".join(f"%r{n}" for n in range(10, 18))
    body = AT.format(32) + f"ld.global.v8.b32 {{{eight}}}, [%d2]; st.global.v8.b32 [%d3], {{{eight}}};"
    _, out = launch(body, BYTES, np.zeros_like(BYTES), block=N, arch="sm_100a")
    np.testing.assert_array_equal(out, BYTES)


def test_modifiers_that_change_nothing():
    loads = [
        "weak.global", "relaxed.gpu.global", "acquire.sys.global", "volatile.global", "mmio.relaxed.sys.global", "global.nc", "global.ca",
        "global.nc.L1::no_allocate.L2::128B", "global.cg", "global.L1::evict_last.L2::64B", "relaxed.cta",
    ]  # fmt: skip
    for modifiers in loads:
        body = AT.format(4) + f"ld.{modifiers}.b32 %r2, [%d2]; st.global.wt.b32 [%d3], %r2;"
        _, out = launch(body, BYTES, np.zeros_like(BYTES), block=N)
        np.testing.assert_array_equal(out[: 4 * N], BYTES[: 4 * N])
    hint = "createpolicy.fractional.L2::evict_first.b64 %d9, 1.0; "
    body = AT.format(4) + hint + "ld.global.L2::cache_hint.b32 %r2, [%d2], %d9; st.global.L2::cache_hint.b32 [%d3], %r2, %d9;"
    _, out = launch(body, BYTES, np.zeros_like(BYTES), block=N)
    np.testing.assert_array_equal(out[: 4 * N], BYTES[: 4 * N])


def test_one_instruction_may_reach_several_spaces_and_arrays():
    """Thread by thread another space: the generic address says which."""
    gpu = Device()
    arrays = [gpu.array(np.full(4, n, np.uint32)) for n in range(3)]
    table, out = gpu.array(np.array([a.address for a in arrays], np.uint64)), gpu.array(np.zeros(N, np.uint32))
    body = """
    rem.u32 %r3, %r1, 5; setp.lt.u32 %p1, %r3, 3; setp.eq.u32 %p2, %r3, 3;
    mov.u64 %d5, loc; cvta.local.u64 %d5, %d5; mov.u64 %d6, sm; cvta.shared.u64 %d6, %d6;
    mul.wide.u32 %d1, %r3, 8; add.u64 %d1, %d20, %d1; @%p1 ld.global.u64 %d7, [%d1];
    selp.u64 %d8, %d5, %d6, %p2; @%p1 mov.u64 %d8, %d7;
    mov.u32 %r4, 77; @%p9 st.shared.u32 [sm+4], %r4; st.local.u32 [loc+4], %r1; bar.sync 0;
    ld.u32 %r2, [%d8+4]; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d21, %d1; st.global.u32 [%d2], %r2;"""
    gpu.launch(kernel(2, body, locals_=".local .align 4 .b8 loc[8];"), "k", block=N, args=[table, out])
    t = np.arange(N)
    np.testing.assert_array_equal(out.numpy(), np.where(t % 5 < 3, t % 5, np.where(t % 5 == 3, t, 77)))


def test_where_threads_meet_the_last_one_stays():
    body = "and.b32 %r3, %r1, 3; mul.wide.u32 %d1, %r3, 16; add.u64 %d1, %d20, %d1; st.global.v4.b32 [%d1], {%r1, %r3, %r1, %r1};"
    (out,) = launch(body, np.zeros(16, np.uint32), block=N, expected=("X008",))
    assert out.reshape(4, 4)[:, 0].tolist() == [N - 4, N - 3, N - 2, N - 1]


def test_isspacep_and_ranks():
    text = """
    mov.u64 %d5, sm; cvta.shared.u64 %d6, %d5; mapa.u64 %d7, %d6, 1; getctarank.u64 %r3, %d7; mov.u32 %r10, %cluster_ctarank;
    mov.u32 %r2, 0;
    isspacep.shared::cta %p1, %d7; @%p1 or.b32 %r2, %r2, 1;
    isspacep.shared::cluster %p2, %d7; @%p2 or.b32 %r2, %r2, 2;
    isspacep.global %p3, %d20; @%p3 or.b32 %r2, %r2, 4;
    isspacep.global %p4, %d7; @%p4 or.b32 %r2, %r2, 8;
    shl.b32 %r3, %r3, 4; or.b32 %r2, %r2, %r3;"""
    out = results(text, grid=2, cluster=2)
    assert out[0].tolist() == [0b10110] * 32
    assert out[1].tolist() == [0b10111] * 32


LANES = """mov.u32 %r2, sm; mov.u64 %d5, sm; cvta.shared.u64 %d6, %d5; mov.u32 %r10, %cluster_ctarank;
    mapa.shared::cluster.u32 %r3, %r2, %r1; mapa.u64 %d7, %d6, %r1; getctarank.shared::cluster.u32 %r4, %r3; getctarank.u64 %r5, %d7;"""


def test_every_lane_may_compute_the_address_of_a_cta_and_those_of_the_cluster_use_it():
    text = (
        LANES
        + """ mov.u32 %r6, 0; st.shared.v2.b32 [%r2], {%r6, %r6}; barrier.cluster.arrive; barrier.cluster.wait; setp.lt.u32 %p1, %r1, 2;
    mad.lo.u32 %r3, %r10, 4, %r3; @%p1 st.shared::cluster.b32 [%r3], 7; barrier.cluster.arrive; barrier.cluster.wait;
    ld.shared.v2.b32 {%r6, %r7}, [%r2]; shl.b32 %r6, %r6, 4; or.b32 %r6, %r6, %r7; shl.b32 %r6, %r6, 16;
    shl.b32 %r4, %r4, 8; or.b32 %r2, %r6, %r4; or.b32 %r2, %r2, %r5;"""
    )
    out = results(text, grid=2, cluster=2)
    assert out.tolist() == [[7 << 20 | 7 << 16 | rank << 8 | rank for rank in range(32)]] * 2


FAR = "setp.eq.u32 %p2, %r1, 2; mov.u64 %d8, %d20; mov.u32 %r8, bar; mapa.shared::cluster.u32 %r9, %r8, %r1; "


@pytest.mark.parametrize(
    "use",
    [
        "st.shared::cluster.b32 [%r3], %r1;",
        "ld.b32 %r6, [%d7];",
        "atom.shared::cluster.add.u32 %r6, [%r3], 1;",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r9];",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r3], %r1, [%r9];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d8], 16, [%r8];",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [%r2], 16, [%r8];",
        "cp.async.bulk.global.shared::cta.bulk_group [%d8], [%r3], 16;",
    ],
)
def test_an_address_in_a_cta_that_the_cluster_has_not_ends_the_kernel_where_it_is_used(use):
    text = LANES + FAR + "@%p9 mbarrier.init.shared.b64 [%r8], 1; barrier.cluster.arrive; barrier.cluster.wait;"
    assert found(text, np.zeros(16, np.uint32), grid=2, cluster=2) == {}
    codes = found(text + "@%p2 " + use, np.zeros(16, np.uint32), grid=2, cluster=2)
    assert list(codes) == ["X001"]
    assert "name rank 2; the cluster has 2 CTAs" in codes["X001"]


# ---- traps


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("ld.global.b32 %r2, [%d20+256];", "X001", "right after the array of arg0"),
        ("ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%d20+240]; ld.global.b32 %r2, [%d20+-4];", "X001", "4 bytes before"),
        ("ld.global.b64 %d2, [%d20+252];", "X002", "not a multiple of the 8 bytes"),
        ("mov.u64 %d1, 0; st.global.b32 [%d1+8], %r1;", "X001", "null pointer"),
        ("mad.lo.u32 %r2, %r1, 4, 5200; ld.shared.b32 %r3, [%r2];", "X001", "past the end of the CTA's shared memory"),
        (
            "mov.u32 %r2, %total_smem_size; add.u32 %r2, %r2, 0x400; ld.shared.b32 %r3, [%r2];",
            "X001",
            ": right after the end of the CTA's shared memory (",
        ),
        (
            "mov.u32 %r2, %total_smem_size; add.u32 %r2, %r2, 0x408; ld.shared.b32 %r3, [%r2];",
            "X001",
            "8 bytes past the end of the CTA's shared memory (",
        ),
        ("mov.u32 %r2, sm; st.shared.b32 [%r2+2], %r1;", "X002", "not a multiple of the 4 bytes"),
        ("ld.local.b32 %r2, [loc+64];", "X001", "local memory has 16 bytes"),
        ("mov.u32 %r2, sm; or.b32 %r2, %r2, 0x3000000; ld.shared::cluster.b32 %r3, [%r2];", "X001", "name rank 3; the cluster has 1 CTA"),
        ("atom.global.add.u32 %r2, [%d20+1024], 1;", "X001", "past the end"),
        ("atom.global.add.u32 %r2, [%d20+2], 1;", "X002", "not a multiple of the 4 bytes"),
        ("cp.async.cg.shared.global [sm], [%d20+8], 16;", "X002", "not a multiple of the 16 bytes"),
        ("ld.shared.b32 %r2, [%d20];", "X001", "a generic address in the array of arg0"),
        ("mov.u64 %d1, loc; cvta.local.u64 %d1, %d1; ld.shared.b32 %r2, [%d1+1024];", "X001", "in the thread's local memory"),
    ],
)
def test_addresses_that_end_the_kernel(body, code, words):
    text = {"locals_": ".local .align 4 .b8 loc[16];"}
    messages = found(body, np.zeros(64, np.uint32), text=text)
    assert list(messages) == [code]
    assert words in messages[code]


# The address of a thread's 16 bytes as {own}, that of an mbarrier as {bar}, that of all bytes for one thread's copies
# as {all}.
NARROW = {
    "ld": "ld.shared.u32 %r2, [{own}];",
    "ld of 16 bytes": "ld.shared.v4.u32 {{%r2, %r3, %r4, %r10}}, [{own}];",
    "ld of a byte": "ld.shared.u8 %r2, [{own}];",
    "st": "st.shared.u32 [{own}], %r9;",
    "st of 16 bytes": "st.shared.v4.u32 [{own}], {{%r1, %r9, %r9, %r1}};",
    "st to the cluster": "st.shared::cluster.u32 [{own}], %r9;",
    "volatile": "ld.volatile.shared.u32 %r2, [{own}];",
    "atom": "atom.shared.add.u32 %r2, [{own}], 7;",
    "red": "red.shared.max.u32 [{own}], %r9;",
    "cas": "atom.shared.cas.b32 %r2, [{own}], %r1, %r9;",
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r2, %r3, %r4, %r10}}, [{own}];",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x4.shared.b16 [{own}], {{%r1, %r9, %r1, %r9}};",
    "wmma.load": "wmma.load.a.sync.aligned.row.m16n16k8.shared.tf32 {{%r2, %r3, %r4, %r10}}, [{all}], 8;",
    "cp.async": "cp.async.ca.shared.global [{own}], [%d21], 16; cp.async.wait_all;",
    "mbarrier": "@%p9 mbarrier.init.shared.b64 [{bar}], 64; bar.sync 0; mbarrier.arrive.shared.b64 _, [{bar}]; L: mbarrier.try_wait.parity.shared.b64 %p1, [{bar}], 0; @!%p1 bra L;",
    "bulk": """@%p9 mbarrier.init.shared.b64 [{bar}], 1; @%p9 mbarrier.arrive.expect_tx.shared.b64 _, [{bar}], 64; @%p9 fence.proxy.async.shared::cta; bar.sync 0;
        @%p9 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{all}], [%d21], 64, [{bar}];
        L: mbarrier.try_wait.parity.shared.b64 %p1, [{bar}], 0; @!%p1 bra L;""",
    "bulk out": """fence.proxy.async.shared::cta; bar.sync 0; @%p9 cp.async.bulk.global.shared::cta.bulk_group [%d22], [{all}], 64;
        @%p9 cp.async.bulk.commit_group; @%p9 cp.async.bulk.wait_group 0;""",
    "st.async": """@%p9 mbarrier.init.shared.b64 [{bar}], 1; @%p9 mbarrier.arrive.expect_tx.shared.b64 _, [{bar}], 256; bar.sync 0;
        st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [{own}], %r9, [{bar}]; L: mbarrier.try_wait.parity.shared.b64 %p1, [{bar}], 0; @!%p1 bra L;""",
    "const": "mov.u32 %r6, table; {again} ld.const.u32 %r2, [{own}];",
    "param": "mov.u32 %r6, 8; {again} ld.param.u32 %r2, [{own}];",
    "local": "mov.u32 %r6, loc; {again} st.local.u32 [loc], 5; ld.local.u32 %r2, [{own}];",
}  # fmt: skip
BLACKWELL = {
    "st.bulk": "st.bulk.weak.shared::cta [{own}], 16, 0;",
    "tcgen05": """setp.lt.u32 %p2, %r1, 32; @%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [{bar}], 32; bar.sync 0; ld.shared.u32 %r6, [bar];
        shr.u32 %r10, %r1, 5; shl.b32 %r10, %r10, 21; add.u32 %r11, %r6, %r10; sub.u32 %r5, %r11, 2032; sub.u32 %r12, %r11, 6;
        tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5+2032], {{%r9}}; tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r2}}, [%r12+6]; tcgen05.wait::ld.sync.aligned;
        bar.sync 0; @%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;""",
}
WAYS = {  # how the addresses are written; they are the same
    "one register": {"own": "%r6", "bar": "%r8", "all": "%r13"},
    "a sum below zero": {"own": "%r5+2032", "bar": "%r7+4096", "all": "%r14+2032"},
    "64 bits whose upper half is dropped": {"own": "%d6+-16", "bar": "%d7+-16", "all": "%d8+-16"},
}  # fmt: skip


AGAIN = "sub.u32 %r5, %r6, 2032; add.u32 %r20, %r6, 16; mov.b64 %d6, {%r20, 77};"  # all ways to write %r6


def _left(form: str, way: str, arch: str, **given) -> list[list]:
    """What a kernel leaves: shared memory and its registers, then what a copy left."""
    own = (NARROW | BLACKWELL)[form].format(**WAYS[way], again=AGAIN)
    text = {
        "variables": ".const .align 8 .u32 table[4] = {11, 12, 13, 14}; .shared .align 16 .b8 sm[2048]; .shared .align 8 .b64 bar[1];",
        "locals_": ".local .align 4 .b8 loc[16];",
    }
    body = f"""mad.lo.u32 %r9, %r1, 77, 5; mov.u32 %r13, sm; mad.lo.u32 %r6, %r1, 16, %r13; mov.u32 %r8, bar; sub.u32 %r7, %r8, 4096; sub.u32 %r14, %r13, 2032;
        st.shared.v4.u32 [%r6], {{%r1, %r9, %r1, %r9}}; st.shared.u64 [bar], 0; bar.sync 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0; mov.u32 %r10, 0;
        {AGAIN} add.u32 %r21, %r8, 16; add.u32 %r22, %r13, 16; mov.b64 %d7, {{%r21, -1}}; mov.b64 %d8, {{%r22, 1}};
        {own} bar.sync 0; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; add.u32 %r2, %r2, %r10; mad.lo.u32 %r6, %r1, 16, %r13;
        ld.shared.v4.u32 {{%r30, %r31, %r32, %r33}}, [%r6];
        mul.wide.u32 %d1, %r1, 32; add.u64 %d2, %d20, %d1; st.global.v4.u32 [%d2], {{%r30, %r31, %r32, %r33}}; st.global.u32 [%d2+16], %r2;"""
    block = 128 if form == "tcgen05" else N
    gpu = Gpu(arch)
    arrays = [gpu.array(a) for a in (np.zeros((block, 8), np.uint32), np.arange(16, dtype=np.uint32), np.zeros(16, np.uint32))]
    given |= {"cluster": 1} if form == "st.async" else {}  # which it needs
    run = gpu.launch(kernel(3, body, arch=arch, **text), block=block, args=arrays, progress=False, workers=1, **given)
    assert run.findings == []
    return [a.numpy().tolist() for a in arrays]


@pytest.mark.parametrize("form", [*NARROW, *BLACKWELL])
def test_addresses_are_formed_at_the_width_of_their_state_space(form, monkeypatch):
    arch = "sm_100a" if form in BLACKWELL else "sm_90a"
    usual = _left(form, "one register", arch)
    for tier, shape in (("closures", {}), ("compiled", {}), ("closures", {"schedule": 1})):
        monkeypatch.setenv("SMEMSIM_TIERS", tier)
        for way in list(WAYS)[1:]:
            assert _left(form, way, arch, **shape) == usual


@pytest.mark.parametrize("address", [1 << 57, 1 << 63, (1 << 63) - 64, (1 << 64) - 64])
@pytest.mark.parametrize(
    "copy",
    [
        "cp.async.ca.shared.global [sm], [%d1], 16;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%d1], 256, [bar];",
        "cp.async.bulk.global.shared::cta.bulk_group [%d1], [sm], 256;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d1], [sm], 256;",
        "cp.async.bulk.prefetch.L2.global [%d1], 256;",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [sm], [%d1, {%r1, %r1}], [bar];",
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d1, {%r1, %r1}], [sm];",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%d1, {%r1, %r1}], [sm];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global [%d1, {%r1, %r1}];",
        "tensormap.replace.tile.global_address.global.b1024.b64 [%d1], %d20;",
    ],
)
def test_no_address_of_a_copy_is_too_large_for_a_finding_with_its_line(copy, address):
    body = f"@%p9 mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\nmov.u64 %d1, {address};\n@%p9 {copy}"
    device = Device("sm_90a")
    text = kernel(1, body)
    launch = device.launch(text, "k", block=32, args=[device.array(np.zeros(64, np.uint32))])
    line = text.splitlines().index(f"@%p9 {copy}") + 1
    ((code, at),) = ((f.code, f.line) for f in launch.result.findings.values())
    assert (code, at) == ("X001", line)
    assert f"{address:#x}" in next(iter(launch.result.findings.values())).message


def test_nothing_runs_behind_a_trap():
    body = "st.global.b32 [%d20], %r1; ld.global.b32 %r2, [%d20+4096]; mov.u32 %r3, 9; st.global.b32 [%d20+4], %r3;"
    (out,) = launch(body, np.full(2, 7, np.uint32), block=1, expected=("X001",))
    assert out.tolist() == [0, 7]


def test_the_thread_that_is_wrong_is_named():
    body = """setp.eq.u32 %p1, %r1, 37; mov.u64 %d1, %d20; @%p1 add.u64 %d1, %d1, 4096;
    mov.u32 %r2, %ctaid.x; setp.eq.u32 %p2, %r2, 2; @%p2 ld.global.b32 %r2, [%d1];"""
    messages = found(body, np.zeros(64, np.uint32), block=64, grid=3)
    assert "access: thread (37, 0, 0) of CTA (2, 0, 0) (ld.global.b32)" in messages["X001"]


def test_a_program_that_is_launched_again_has_other_arguments():
    device = Device()
    text = kernel(1, "st.global.b32 [%d20], %r1;")
    first, second = device.array(np.full(1, 7, np.uint32)), device.array(np.full(1, 8, np.uint32))
    device.launch(text, "k", args=[first])
    assert (first.numpy()[0], second.numpy()[0]) == (0, 8)
    device.launch(text, "k", args=[second])
    assert second.numpy()[0] == 0


def test_the_systems_part_of_shared_memory_is_memory_and_told():
    """As golden/sm_90a/reserved_shared: loads, stores and atomics go on; threads of a warp may be on both sides of
    0x400.
    """
    body = """mov.u32 %r5, sm; sub.u32 %r2, %r1, 16; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %r5; st.shared.b32 [%r2], %r1; atom.shared.add.u32 %r3, [%r2], 5;
    ld.shared.b32 %r4, [%r2]; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d20, %d1; st.global.b32 [%d1], %r4;"""
    gpu = Gpu("sm_90a")
    out = gpu.zeros(32, np.uint32)
    run = gpu.launch(kernel(1, body), block=32, args=[out], progress=False)
    assert (out.numpy() == np.arange(32) + 5).all()
    assert run.launch.status == 0
    assert {f.code for f in run.findings} == {"X001"}
    assert "the memory of the CTA begins at 0x400" in run.findings[0].message


@pytest.mark.parametrize("lanes", ["eq.u32 %p1, %r1, 31", "ge.u32 %p1, %r1, 0"])
@pytest.mark.parametrize("at", [-64, 64])
@pytest.mark.parametrize(
    ("access", "status"), [("ld.shared", 715), ("st.shared", 715), ("ld.shared::cluster", 0), ("st.shared::cluster", 0)]
)
def test_an_address_of_another_cta_ends_the_kernel_without_the_word_cluster(access, status, at, lanes):
    """As golden/sm_90a/reserved_shared: in the system's part as in the window, of one lane as of all."""
    value = "%r2, [%r5]" if access.startswith("ld") else "[%r5], %r1"
    body = f"""mov.u32 %r5, sm; mapa.shared::cluster.u32 %r6, %r5, 1; mov.u32 %r7, %cluster_ctarank; setp.eq.u32 %p2, %r7, 0; barrier.cluster.arrive; barrier.cluster.wait;
    setp.{lanes}; and.pred %p1, %p1, %p2; @%p1 mov.u32 %r5, %r6; add.u32 %r5, %r5, {at}; @%p2 {access}.b32 {value}; barrier.cluster.arrive; barrier.cluster.wait;"""
    gpu = Gpu("sm_90a")
    run = gpu.launch(kernel(0, body), grid=2, cluster=2, block=32, progress=False)
    assert run.launch.status == status


@pytest.mark.parametrize("space", ["local", "shared", "shared::cluster", "global", "const", "param"])
def test_a_generic_address_goes_back_to_the_one_that_it_was_made_of(space):
    """Also of places inside of a variable; `cvta.to` takes what `cvta` gives."""
    name = {"local": "loc", "global": "data", "const": "data", "param": "p0"}.get(space, "data")
    variables = "" if space in ("local", "param") else f".{space.partition('::')[0]} .align 16 .b8 data[64];"
    text = {"locals_": ".local .align 16 .b8 loc[64];", "variables": variables}
    back = (
        f"mov.u64 %d1, {name}; cvta.{space}.u64 %d3, %d1; cvta.to.{space}.u64 %d4, %d3; add.u64 %d3, %d3, 8; cvta.to.{space}.u64 %d5, %d3;"
    )
    assert not results(f"{back} sub.u64 %d2, %d4, %d1;", kind=np.uint64, text=text).any()
    assert (results(f"{back} sub.u64 %d2, %d5, %d1;", kind=np.uint64, text=text) == 8).all()


WAITED = "cp.async.wait_group 0;"
BELOW = """shl.b32 %r2, %r1, 2; add.u32 %r3, %r2, {at}; mov.u32 %r5, sm+512; add.u32 %r5, %r5, %r2; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d21, %d1;
    mov.u32 %r6, %ctaid.x; mul.wide.u32 %d3, %r6, 512; add.u64 %d1, %d20, %d1; add.u64 %d1, %d1, %d3; ld.global.u32 %r8, [%d2];
    cp.async.ca.shared.global [%r3], [%d2], 4; cp.async.commit_group; st.shared.u32 [%r5], %r1; {after}
    {wait} bar.sync 0; ld.shared.u32 %r4, [%r3]; st.global.u32 [%d1], %r4; xor.b32 %r7, %r5, 64; ld.shared.u32 %r4, [%r7]; st.global.u32 [%d1+256], %r4;"""


@pytest.mark.parametrize("cohorts", ["", "off"])
@pytest.mark.parametrize("schedule", [None, 1, 2])
def test_copies_into_the_systems_part_touch_no_window(cohorts, schedule, monkeypatch):
    """A place there is none of the windows of the first CTAs, which have the same numbers. Lanes may be on both sides
    of the window's begin.
    """
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    numbers = np.arange(7, 71, dtype=np.uint32)
    for at in (0, 0x200, 0x3C0, 0x37C):
        gpu = Gpu("sm_90a")
        out, source = gpu.zeros(3 * 128, np.uint32), gpu.array(numbers)
        text = kernel(2, BELOW.format(at=at, after="", wait=WAITED))
        run = gpu.launch(text, grid=3, block=64, args=[out, source], progress=False, schedule=schedule)
        got = out.numpy().reshape(3, 2, 64)
        assert (got[:, 0] == numbers).all()
        assert (got[:, 1] == np.arange(64) ^ 16).all()
        assert {f.code for f in run.findings} == {"X001"}


@pytest.mark.parametrize("cohorts", ["", "off"])
def test_a_race_in_the_window_is_found_beside_copies_below_it(cohorts, monkeypatch):
    """The same kernel, and other threads read the window without a barrier, or lanes on both sides of its begin do not
    wait for their copies.
    """
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    gpu = Gpu("sm_90a")
    for at, after, wait, code in (
        (0, "xor.b32 %r7, %r5, 128; ld.shared.u32 %r4, [%r7]; st.global.u32 [%d1], %r4;", WAITED, "X008"),
        (0x3C0, "xor.b32 %r7, %r5, 128; ld.shared.u32 %r4, [%r7]; st.global.u32 [%d1], %r4;", WAITED, "X008"),
        (0x3C0, "", "", "X004"),
        (0x3C0, "bar.sync 0; ld.shared.u32 %r4, [sm]; st.global.u32 [%d1], %r4;", WAITED, "X004"),
    ):
        wrong = kernel(2, BELOW.format(at=at, after=after, wait=wait))
        run = gpu.launch(wrong, grid=3, block=64, args=[gpu.zeros(3 * 128, np.uint32), gpu.zeros(64, np.uint32)], progress=False)
        assert {f.code for f in run.findings} == {"X001", code}, (at, after)


def test_sums_in_the_systems_part_are_those_of_the_window():
    """A sum of two NaNs is the one that was there, unlike in global memory."""
    there, added = 0x7FF8000000000005, 0x7FF8000000000006
    gpu = Gpu("sm_90a")
    body = f"mov.u32 %r5, sm; mov.b64 %d1, {there}; mov.b64 %g2, {added};"
    for n, at in enumerate(("%r5", "%r5-512")):
        body += f"st.shared.b64 [{at}], %d1; atom.shared.add.f64 %g1, [{at}], %g2; ld.shared.b64 %d3, [{at}]; st.global.b64 [%d20+{8 * n}], %d3;"
    out = gpu.zeros(2, np.uint64)
    gpu.launch(kernel(1, body), block=1, args=[out], progress=False)
    assert out.numpy().tolist() == [there] * 2


@pytest.mark.parametrize("below", [16, -16])
def test_only_the_ctas_of_a_cluster_have_windows_and_systems_parts(below):
    """An address of one CTA more, in its window or below it, is outside (error 719)."""
    for rank, status in ((0, 0), (1, 0), (2, 719), (3, 719)):
        body = f"mov.u32 %r2, sm; mapa.shared::cluster.u32 %r2, %r2, 0; add.u32 %r2, %r2, {(rank << 24) - below}; ld.shared::cluster.b32 %r3, [%r2]; barrier.cluster.arrive; barrier.cluster.wait;"
        run = Gpu("sm_90a").launch(kernel(0, body), grid=2, cluster=2, block=1, progress=False)
        assert (run.launch.status, "X001" in {f.code for f in run.findings}) == (status, status > 0 or below > 0), rank


def test_shared_addresses_of_another_cta_end_the_kernel_where_the_space_is_a_ctas():
    """715 on a card, in its window and below it."""
    gpu = Gpu("sm_90a")
    for rank, status in ((0, 715), (1, 0)):
        body = f"mov.u32 %r3, %cluster_ctarank; setp.eq.u32 %p1, %r3, 1; mov.u32 %r2, sm; mapa.shared::cluster.u32 %r2, %r2, {rank}; @%p1 ld.shared.b32 %r3, [%r2];"
        run = gpu.launch(kernel(1, body), grid=2, cluster=2, block=1, args=[gpu.zeros(1, np.uint32)], progress=False)
        assert run.launch.status == status
        assert bool(run.findings) == bool(status)


def test_what_nobody_knows_is_not_made_up():
    with pytest.raises(Unmodelled, match="not modelled"):
        launch("multimem.ld_reduce.global.add.f32 %f1, [%d20];", np.zeros(1, np.uint32))
    with pytest.raises(InputError, match="ptxas refuses it"):
        launch("atom.global.min.f32 %f1, [%d20], %f1;", np.zeros(1, np.uint32))
    with pytest.raises(InputError, match=r"PTX has no instruction with \.cx"):
        launch("ld.global.cx.b32 %r1, [%d20];", np.zeros(1, np.uint32))
    with pytest.raises(InputError, match="read only"):
        launch("st.const.b32 [%d20], %r1;", np.zeros(1, np.uint32))


# ---- atomics

INTEGER = {
    "add": lambda a, b: a + b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exch": lambda a, b: b,
    "inc": lambda a, b: 0 if a >= b else a + 1,
    "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}


@examples(60)
@given(st.data())
def test_atomics_are_what_threads_do_one_after_the_other(data):
    """Old values and the result are those of a loop over the threads in their order."""
    op = data.draw(st.sampled_from(sorted(INTEGER)))
    kinds = {"add": "u32 s32 u64", "inc": "u32", "dec": "u32", "exch": "b32 b64"}.get(
        op, "b32 b64" if op in ("and", "or", "xor") else "u32 s32 u64 s64"
    )
    kind = data.draw(st.sampled_from(kinds.split()))
    space = data.draw(st.sampled_from(["global", "shared", ""]))
    dtype = np.dtype({"u": "u", "s": "i", "b": "u"}[kind[0]] + str(int(kind[1:]) // 8))
    limits, places = np.iinfo(dtype), data.draw(st.integers(1, 6))
    small = data.draw(st.booleans())
    numbers = st.integers(0, 5) if small else st.integers(int(limits.min), int(limits.max))
    begin = np.array(data.draw(st.lists(numbers, min_size=places, max_size=places)), dtype)
    new = np.array(data.draw(st.lists(numbers, min_size=32, max_size=32)), dtype)
    where = np.array(data.draw(st.lists(st.integers(0, places - 1), min_size=32, max_size=32)), np.uint32)
    size, r = dtype.itemsize, "%r" if dtype.itemsize == 4 else "%d"
    memory = ".global" if space == "global" else space and ".shared"
    address = "mov.u64 %d8, %d20;" if space != "shared" else "mov.u64 %d8, sm;"
    index = f"mul.wide.u32 %d1, %r1, {size}; add.u64 %d2, %d21, %d1; ld.global.b{8 * size} {r}10, [%d2]; mul.wide.u32 %d3, %r1, 4; add.u64 %d3, %d22, %d3;"
    index += f" ld.global.b32 %r5, [%d3]; mul.wide.u32 %d4, %r5, {size}; {address} add.u64 %d8, %d8, %d4; add.u64 %d9, %d20, %d4;"
    copy = f"ld.global.b{8 * size} {r}12, [%d9]; st.shared.b{8 * size} [%d8], {r}12; bar.warp.sync -1;" if space == "shared" else ""
    back = f"bar.warp.sync -1; ld.shared.b{8 * size} {r}12, [%d8]; st.global.b{8 * size} [%d9], {r}12;" if space == "shared" else ""
    body = f"{index}{copy} atom{memory}.{op}.{kind} {r}11, [%d8], {r}10; {back} add.u64 %d6, %d23, %d1; st.global.b{8 * size} [%d6], {r}11;"
    after, _, _, old = launch(body, begin, new, where, np.zeros(32, dtype))
    state, expected = [int(v) for v in begin], []
    for t in range(32):
        expected.append(state[where[t]])
        result = INTEGER[op](state[where[t]], int(new[t]))
        state[where[t]] = (result - int(limits.min)) % (1 << 8 * size) + int(limits.min)
    assert old.tolist() == expected
    assert after.tolist() == state


@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_float_sums_round_at_every_step(kind, dtype):
    """Sums of one thread after the other in the type itself; numpy's own addition is the reference."""
    values = RNG.standard_normal(N).astype(dtype)
    size, r = np.dtype(dtype).itemsize, {2: "%h", 4: "%r", 8: "%d"}[np.dtype(dtype).itemsize]
    nofz = ".noftz" if size == 2 else ""
    body = f"mul.wide.u32 %d1, %r1, {size}; add.u64 %d2, %d21, %d1; ld.global.b{8 * size} {r}10, [%d2]; atom.global.add{nofz}.{kind} {r}11, [%d20], {r}10; add.u64 %d3, %d22, %d1; st.global.b{8 * size} [%d3], {r}11;"
    bits = np.dtype(f"u{size}")
    total, _, old = launch(body, np.zeros(1, bits), values.view(bits), np.zeros(N, bits), block=N)
    running, before = dtype(0), []
    for v in values:
        before.append(running)
        running = dtype(running + v)
    assert total.view(dtype)[0] == running
    np.testing.assert_array_equal(old.view(dtype), np.array(before, dtype))


def test_global_sums_of_f32_flush_and_shared_ones_do_not():
    tiny = np.array([1, 1], np.uint32)
    body = "mov.b32 %f1, 0x00000001; mov.u32 %r3, 1; st.shared.b32 [sm], %r3; red.global.add.f32 [%d20], %f1; red.shared.add.f32 [sm], %f1; ld.shared.b32 %r4, [sm]; st.global.b32 [%d20+4], %r4;"
    (out,) = launch(body, tiny, block=1)
    assert out.tolist() == [0, 2]


def test_packed_and_vector_sums():
    one = np.full(8, 1, np.float16)
    body = "mov.b32 %r2, 0x3c003c00; red.global.add.noftz.f16x2 [%d20], %r2; red.global.v2.f16x2.add.noftz [%d20+8], {%r2, %r2};"
    (out,) = launch(body, one, block=3)
    assert out.tolist() == [4, 4, 1, 1, 4, 4, 4, 4]
    body = "mov.b32 %f1, 0f3F800000; mov.b32 %f2, 0f40000000; atom.global.v2.f32.add {%f3, %f4}, [%d20], {%f1, %f2}; st.global.v2.f32 [%d20+8], {%f3, %f4};"
    (out,) = launch(body, np.array([1, 2, 3, 4], np.float32), block=1)
    assert out.tolist() == [2, 4, 1, 2]
    body = "mov.b16 %h1, 0x4400; atom.global.v2.f16.max.noftz {%h3, %h4}, [%d20], {%h1, %h1};"
    (out,) = launch(body, np.array([1, 7], np.float16), block=1)
    assert out.tolist() == [4, 7]


def test_compare_and_swap():
    """A lock-free counter: each thread succeeds exactly once."""
    loop = """L: ld.relaxed.gpu.global.u32 %r3, [%d20]; add.u32 %r4, %r3, 1; atom.relaxed.gpu.global.cas.b32 %r2, [%d20], %r3, %r4;
    setp.ne.u32 %p1, %r2, %r3; @%p1 bra L; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d21, %d1; st.global.u32 [%d1], %r2;"""
    counter, seen = launch(loop, np.zeros(1, np.uint32), np.zeros(N, np.uint32), block=N)
    assert counter[0] == N
    assert sorted(seen.tolist()) == list(range(N))
    body = "mov.b16 %h1, 5; mov.b16 %h2, 9; atom.global.cas.b16 %h3, [%d20+2], %h1, %h2; st.global.b16 [%d20+4], %h3;"
    (out,) = launch(body, np.array([5, 5, 0], np.uint16), block=1)
    assert out.tolist() == [5, 9, 5]
    body = "mov.b128 %q1, {%d20, %d21}; atom.global.exch.b128 %q2, [%d20], %q1; st.global.b128 [%d20+16], %q2;"
    (out, _) = launch(body, np.array([1, 2, 3, 4], np.uint64), np.zeros(1, np.uint64), block=1)
    assert out[2:].tolist() == [1, 2]


# ---- cp.async


@examples(20)
@given(size=st.sampled_from([4, 8, 16]), sizes=st.lists(st.integers(0, 16), min_size=N, max_size=N), seed=st.integers(0, 9))
def test_cp_async_fills_up_with_zeros(size, sizes, seed):
    """`size` bytes arrive: those of the source up to its size, zeros behind them, whatever lay there before."""
    data = np.random.default_rng(seed).integers(1, 256, N * size, dtype=np.uint8)
    amounts = np.minimum(np.array(sizes, np.uint32), size)
    body = f"""mul.wide.u32 %d1, %r1, {size}; add.u64 %d2, %d20, %d1; mul.wide.u32 %d3, %r1, 4; add.u64 %d3, %d21, %d3; ld.global.u32 %r3, [%d3];
    mov.u32 %r4, sm; mad.lo.u32 %r4, %r1, {size}, %r4; mov.u32 %r5, -1; st.shared.b32 [%r4], %r5; add.u64 %d4, %d22, %d1;
    cp.async.ca.shared.global [%r4], [%d2], {size}, %r3; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;"""
    for at in range(0, size, 4):
        body += f"ld.shared.b32 %r6, [%r4+{at}]; st.global.b32 [%d4+{at}], %r6; "
    _, _, out = launch(body, data, amounts, np.zeros_like(data), block=N)
    expected = np.where(np.arange(size) < amounts[:, None], data.reshape(N, size), 0)
    np.testing.assert_array_equal(out.reshape(N, size), expected)


def test_cp_async_reads_nothing_that_it_ignores():
    """A predicated-off source may lie anywhere."""
    body = "mov.u64 %d1, 0; setp.lt.u32 %p1, %r1, 40; mov.u32 %r4, sm; cp.async.cg.shared.global [%r4], [%d1], 16, %p1; cp.async.wait_all;"
    launch(body, np.zeros(1, np.uint32))
    assert "null pointer" in found(body.replace(" 16, %p1", " 16"), np.zeros(1, np.uint32))["X001"]


def test_st_bulk_zeroes():
    body = "mov.u32 %r3, 255; mov.u32 %r4, sm; mad.lo.u32 %r4, %r1, 4, %r4; st.shared.u32 [%r4], %r3; bar.warp.sync -1; mov.u32 %r5, sm;"
    body += "mov.u64 %d1, 24; @%p9 st.bulk.shared::cta [%r5+8], %d1, 0; bar.warp.sync -1; ld.shared.u32 %r2, [%r4];"
    assert results(body, arch="sm_100a").tolist() == [255, 255, *[0] * 6, *[255] * 24]
    with pytest.raises(InputError, match="needs sm_100"):
        results(body)


@pytest.mark.parametrize(("size", "at"), [(1 << 13, 0), (10_000, 8), (1 << 20, 0), (1 << 30, 64)])
def test_st_bulk_names_its_last_bytes_if_they_are_outside(size, at):
    """The kernel's shared memory begins at 0x400."""
    body = f"mov.u32 %r5, sm; mov.u64 %d1, {size}; @%p9 st.bulk.shared::cta [%r5+{at}], %d1, 0;"
    message = found(body, np.zeros(1, np.uint32), arch="sm_100a")["X001"]
    assert f"8 bytes at shared address 0x{0x400 + at + size - 8:x} are out of bounds" in message


# ---- who wrote what


@examples(40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["touch", "run", "bytes"]), st.integers(0, 511), st.integers(1, 60), st.integers(2, 5)),
        min_size=1,
        max_size=12,
    )
)
def test_owners_side_by_side_are_bytes_with_owners(steps):
    """Whole chunks of threads, runs and single bytes, noted through two parts of one bookkeeping, against a plain
    array.
    """
    whole = Owners(1024)
    parts = [whole.part(0, 512), whole.part(512, 512)]
    writer, place = np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)
    for n, (what, at, wanted, who) in enumerate(steps):
        base, part = 512 * (n % 2), parts[n % 2]
        size = min(wanted, 512 - at)
        if what == "touch":
            chunks = np.arange(at // 16, (at + size + 15) // 16)
            (whole if who % 2 else part).touch(chunks + (base // 16 if who % 2 else 0), 1)
            span = slice(base + 16 * chunks[0], base + 16 * chunks[-1] + 16)
            writer[span], place[span] = 1, np.tile(np.arange(16), len(chunks))
        elif what == "run":
            part.set_run(at, size, who)
            writer[base + at : base + at + size], place[base + at : base + at + size] = who, np.arange(size)
        else:
            part.set_bytes(np.arange(at, at + size), who, np.arange(size) + 3)
            writer[base + at : base + at + size], place[base + at : base + at + size] = who, np.arange(size) + 3
    for n, part in enumerate(parts):
        found, where = part.of(np.arange(512))
        np.testing.assert_array_equal(found, writer[512 * n : 512 * n + 512])
        np.testing.assert_array_equal(where, place[512 * n : 512 * n + 512])


EIGHT = "{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}"
FOUR = "{%d1,%d2,%d3,%d4}"
# Each of them is refused by ptxas 13.0.88 for sm_100a.
NO_ACCESS = f"""
ld.global.f16 %h1, [%d0]; st.global.f32x2 [%d0], %d1; ld.global.v8.b64 {{%d1,%d2,%d3,%d4,%d5,%d6,%d7,%d8}}, [%d0];
ld.shared.v4.b64 {FOUR}, [%r0]; st.local.v8.f32 [%d0], {EIGHT}; ld.nc.b32 %r1, [%d0]; ld.shared.nc.b32 %r1, [%r0]; st.cv.b32 [%d0], %r1; st.ca.b32 [%d0], %r1;
ld.relaxed.global.b32 %r1, [%d0]; ld.acquire.b32 %r1, [%d0]; st.weak.gpu.b32 [%d0], %r1; ld.release.gpu.b32 %r1, [%d0]; st.acquire.gpu.b32 [%d0], %r1;
ld.mmio.global.b32 %r1, [%d0]; ld.mmio.relaxed.gpu.b32 %r1, [%d0]; ld.mmio.relaxed.sys.global.v2.b32 {{%r1,%r2}}, [%d0]; ld.mmio.relaxed.sys.shared.b32 %r1, [%r0];
atom.global.exch.u32 %r1, [%d0], %r2; atom.cas.s64 %d1, [%d0], %d2, %d3; atom.global.add.s64 %d1, [%d0], %d2; atom.add.f16 %h1, [%d0], %h2;
red.global.add.v2.bf16x2 [%d0], {{%r1,%r2}}; atom.add.noftz.f32 %r1, [%d0], %r2; red.exch.b32 [%d0], %r1; red.acquire.gpu.global.add.u32 [%d0], %r1; atom.weak.add.u32 %r1, [%d0], %r2;
"""


def test_accesses_that_ptxas_refuses_are_refused():
    lines = [text.strip() + ";" for text in NO_ACCESS.split(";") if text.strip()]
    assert sorted(set(range(len(lines))) - set(refused(lines))) == []


def test_what_is_said_of_caches_is_for_global_memory():
    lines = [
        "ld.shared.L1::no_allocate.b32 %r1, [%r2];",
        "st.local.L1::evict_first.b32 [%d1], %r1;",
        "ld.shared.L2::cache_hint.b32 %r1, [%r2], %d2;",
    ]
    assert all("is for global memory" in refused([line])[0] for line in lines)
    assert refused([line.replace(".shared", ".global").replace(".local", "").replace("%r2]", "%d1]") for line in lines]) == {}


@pytest.mark.parametrize(
    ("body", "sizes", "words"),
    [
        ("mov.u64 %d1, 0x100000000000; ld.global.u32 %r2, [%d1];", (), "no array"),
        ("ld.global.u64 %d1, [%d20+8];", (12,), "4 of them past the end of"),
        ("ld.global.u32 %r2, [%d20+12];", (12,), "right after"),
        ("ld.global.u32 %r2, [%d20+16];", (12,), "4 bytes past the end of"),
        ("ld.global.u32 %r2, [%d20+-4];", (12,), "4 bytes before"),
        ("mov.u32 %r2, 0x02000400; ld.shared::cluster.u32 %r2, [%r2];", (), "bits 31:24 name rank 2; the cluster has 1 CTA"),
    ],
)
def test_an_access_outside_says_how_far_from_what(body, sizes, words):
    assert words in found(body, *(np.zeros(size, np.uint8) for size in sizes), block=1)["X001"]


def test_orders_are_for_memory_that_others_see_and_go_with_no_cache():
    """ptxas 13.0.88 refuses the second half."""
    right = """ld.volatile.shared::cta.b32 %r1, [%r0]; ld.volatile.b32 %r1, [%d0]; ld.weak.local.b32 %r1, [%r0]; ld.volatile.global.L2::128B.b32 %r1, [%d0];
    ld.acquire.gpu.global.L1::evict_last.b32 %r1, [%d0]; st.release.gpu.global.L1::no_allocate.b32 [%d0], %r1; ld.weak.global.cg.b32 %r1, [%d0]"""
    wrong = """ld.volatile.local.b32 %r1, [%r0]; st.volatile.local.b32 [%r0], %r1; ld.volatile.const.b32 %r1, [%d0]; ld.relaxed.gpu.local.b32 %r1, [%r0];
    st.release.cta.local.b32 [%r0], %r1; ld.volatile.param::func.b32 %r1, [%r0]; ld.volatile.global.ca.b32 %r1, [%d0]; ld.relaxed.gpu.global.nc.b32 %r1, [%d0];
    ld.weak.global.nc.b32 %r1, [%d0]; st.release.gpu.wt.b32 [%d0], %r1; ld.volatile.global.L1::no_allocate.b32 %r1, [%d0];
    ld.volatile.global.L2::cache_hint.b32 %r1, [%d0], %d2; ld.global.L2::evict_last.v4.b32 {%r1,%r2,%r3,%r4}, [%d0]; st.global.L2::evict_first.b32 [%d0], %r1"""
    assert refused([right + ";"]) == {}
    assert [text for text in wrong.split(";") if not refused([text.strip() + ";"])] == []


def test_a_barrier_and_its_count_are_such_where_they_are_written_as_numbers():
    """ptxas 13.0.88 refuses the second half; in a register they are found when they are used."""
    right = "bar.sync 15; bar.sync 0, 64; bar.sync 0, 0; barrier.cta.arrive 4294967296, 32; bar.sync %r1, %r2; bar.warp.sync 40"
    wrong = "bar.sync 16; barrier.sync -1; bar.arrive 16, 32; bar.red.popc.u32 %r1, 0x10, %p1; bar.sync 0, 33; bar.arrive 0, 0; barrier.sync.aligned %r1, 40"
    assert refused([right + ";"]) == {}
    assert [text for text in wrong.split(";") if not refused([text.strip() + ";"])] == []


def test_256_bits_at_once_are_for_global_memory_of_blackwell():
    lines = [f"ld.global.v8.f32 {EIGHT}, [%d0];", f"st.v4.b64 [%d0], {FOUR};", f"ld.global.nc.v8.u32 {EIGHT}, [%d0];"]
    assert refused(lines) == {}
    assert refused([line.replace("global", "shared").replace("st.v4", "st.shared.v4") for line in lines[:2]]).keys() == {0, 1}
    assert refused(lines, arch="sm_90a").keys() == {0, 1, 2}


def test_sums_of_f64_hand_on_the_nan_of_shared_memory_but_of_global_memory_the_other_one():
    """In shared memory made quiet, as DADD does it; in global memory untouched."""
    first, second = 0x7FF0000000000001, 0xFFF0000000000002
    body = f"""mov.b64 %d1, {first:#x}; mov.b64 %d2, {second:#x}; mov.b64 %g1, %d2; st.shared.u64 [sm], %d1; st.global.u64 [%d20], %d1; bar.sync 0;
    atom.shared.add.f64 %g2, [sm], %g1; atom.global.add.f64 %g2, [%d20], %g1; ld.shared.u64 %d3, [sm]; st.global.u64 [%d20+8], %d3;"""
    (out,) = launch(body, np.zeros(2, np.uint64), block=1)
    assert out.tolist() == [second, first | 1 << 51]


def test_bytes_of_a_word_that_a_warp_wrote_before_a_barrier_are_free_for_others():
    body = """setp.lt.u32 %p1, %r1, 32; mov.b16 %h1, 5; @%p1 st.shared.u8 [sm], %h1; bar.sync 0;
    @%p1 st.shared.u8 [sm+1], %h1;
    mov.b16 %h1, 6; @!%p1 st.shared.u8 [sm], %h1; bar.sync 0;"""
    launch(body, np.zeros(2, np.uint64), block=64)
    assert "X008" in found(body.replace("[sm+1]", "[sm]"), np.zeros(2, np.uint64), block=64)


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("selp.b32 %r2, %r3, %r1, %p9; setp.eq.u32 %p2, %r1, 99; selp.b32 %r2, %r3, %r1, %p2;", False),  # lane 0's is overwritten
        ("setp.gt.u32 %p2, %r3, 5; and.pred %p3, %p2, %p8; selp.b32 %r2, 7, %r1, %p3;", False),  # %p8 is false
        ("setp.gt.u32 %p2, %r3, 5; or.pred %p3, %p2, !%p8; selp.b32 %r2, 7, %r1, %p3;", False),
        ("setp.gt.and.u32 %p3, %r3, 5, %p8; selp.b32 %r2, 7, %r1, %p3;", False),
        ("mov.b32 %r2, %r1; @%p9 mov.b32 %r2, %r3; @%p9 mov.b32 %r2, 0;", False),
        ("mov.b32 %r2, %r1; @%p8 shfl.sync.idx.b32 %r2, %r3, 0, 31, -1;", False),
        ("setp.gt.u32 %p2, %r3, 5; or.pred %p3, %p2, %p8; selp.b32 %r2, 7, %r1, %p3;", True),
        ("st.shared.u32 [sm+64], %r1; ld.shared.v2.u32 {%r2, %r4}, [sm+64];", False),  # the second is not used
        ("st.shared.u32 [sm+64], %r1; ld.shared.v2.u32 {%r4, %r2}, [sm+64];", True),
        ("st.shared.u32 [sm+64], %r1; ld.shared.b64 %d3, [sm+64]; cvt.u32.u64 %r2, %d3;", False),  # its lower half
        ("st.shared.u32 [sm+68], %r1; ld.shared.b64 %d3, [sm+64]; cvt.u32.u64 %r2, %d3;", True),
        ("st.shared.u32 [sm+64], %r1; ld.shared.b64 %d3, [sm+64]; cvt.s64.s32 %d3, %d3; shr.u64 %d3, %d3, 1; cvt.u32.u64 %r2, %d3;", False),
        ("st.shared.u32 [sm+68], %r1; ld.shared.b64 %d3, [sm+64]; cvt.s64.s32 %d3, %d3; shr.u64 %d3, %d3, 1; cvt.u32.u64 %r2, %d3;", True),
        ("st.shared.u32 [sm+64], %r1; ld.shared.b64 %d3, [sm+64]; shr.u64 %d3, %d3, 1; cvt.u32.u64 %r2, %d3;", True),
        ("mov.b64 %d3, {%r1, %r3}; mov.b64 %d4, %d3; mov.b64 {%r2, _}, %d4;", False),
        ("mov.b64 %d3, {%r1, %r3}; mov.b64 %d4, %d3; mov.b64 {_, %r2}, %d4;", True),
        ("mov.b64 %d3, {%r1, %r29}; mov.b64 {%r2, _}, %d3;", False),  # nothing gives %r29 a value
        ("mov.b64 %d3, {%r1, %r29}; mov.b64 {_, %r2}, %d3;", True),
        ("mov.b64 %d3, {%r1, %r3}; @%p9 mov.b64 %d3, {%r3, %r1}; mov.b64 {%r2, _}, %d3;", True),
        (
            "mov.b32 {%h1, _}, %r1; mov.b32 {%h2, _}, %r3; mov.b32 %r4, {%h1, %h2}; add.f16x2 %r4, %r4, %r4; mov.b32 {%h3, _}, %r4; cvt.u32.u16 %r2, %h3;",
            False,
        ),
        (
            "mov.b32 {%h1, _}, %r1; mov.b32 {%h2, _}, %r3; mov.b32 %r4, {%h1, %h2}; add.f16x2 %r4, %r4, %r4; mov.b32 {_, %h3}, %r4; cvt.u32.u16 %r2, %h3;",
            True,
        ),
        ("cvt.rn.f16x2.f32 %r4, %r3, %r1; mov.b32 {%h3, _}, %r4; cvt.u32.u16 %r2, %h3;", False),
        ("cvt.rn.f16x2.f32 %r4, %r3, %r1; mov.b32 {_, %h3}, %r4; cvt.u32.u16 %r2, %h3;", True),
        ("add.u32 %r2, %r3, 1;", True),
        ("mov.b32 %r2, %r1; @%p9 mov.b32 %r2, %r3;", True),
        ("setp.gt.u32 %p2, %r3, 5; mov.b32 %r2, %r1; @%p2 mov.b32 %r2, 0;", True),
        ("setp.gt.u32 %p2, %r3, 5; mov.b32 %r2, %r1; @%p2 bra J; mov.b32 %r2, 0; J:", True),
        ("shfl.sync.idx.b32 %r2, %r3, 0, 31, -1;", True),
        ("mov.u32 %r5, sm; and.b32 %r4, %r3, 4; add.u32 %r4, %r4, %r5; ld.shared.u32 %r2, [%r4];", True),
    ],
)
def test_what_nobody_has_written_is_wrong_where_it_is_used(use, told):
    body = f"""setp.gt.u32 %p8, %r1, 99; ld.shared.u32 %r3, [sm+64]; {use}
    mad.wide.u32 %d30, %r1, 4, %d20; st.global.u32 [%d30], %r2;"""
    messages = found(body, np.zeros(32, np.uint32))
    assert ("R507" in messages) == told
    assert not told or "; use: " in messages["R507"]


SCRATCH = """
    ld.param.b64 %rd0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r9, %ctaid.x; mov.u32 %r1, %reserved_smem_offset_1;
    shr.u32 %r2, %r0, 5; shl.b32 %r2, %r2, 3; add.u32 %r3, %r1, %r2; mov.u32 %r8, smem; st.shared.b32 [%r8], %r9;
    setp.eq.u32 %p1, %r0, 32; mad.lo.u32 %r4, %r9, 100, 7; cvt.u64.u32 %rd1, %r3; cvta.shared.u64 %rd1, %rd1;
    @%p1 st.b32 [%rd1+32], %r4;
    bar.sync 0;
    ld.shared.b32 %r5, [%r1+{at}];
    mad.lo.u32 %r6, %r9, 64, %r0; mul.wide.u32 %rd3, %r6, 4; add.u64 %rd0, %rd0, %rd3; st.global.b32 [%rd0], %r5;
"""


def test_the_scratch_memory_of_tiles_of_several_warps_is_there_for_those_that_ask_where_it_lies():
    """cg::tiled_partition<64> meets and reduces in the system's part of shared memory, at %reserved_smem_offset_1."""
    gpu = Gpu("sm_100a")
    out = gpu.array(np.zeros((2, 64), np.int32))
    run = gpu.launch(
        ptx_kernels.kernel(SCRATCH.format(at=40), ".b64 out", shared=16, arch="sm_100a"), "k", grid=2, block=64, args=[out], progress=False
    )
    assert run.findings == []
    np.testing.assert_array_equal(out.numpy(), np.repeat([[7], [107]], 64, axis=1))
    barriers = SCRATCH.replace("ld.shared.b32 %r5", "atom.shared.or.b32 %r5").replace(
        "+{at}]", "+{at}], 1"
    )  # which hold zeros when a CTA begins
    text = ptx_kernels.kernel(barriers.format(at=16), ".b64 out", shared=16, arch="sm_100a")
    assert gpu.launch(text, "k", grid=2, block=64, args=[out], progress=False).findings == []
    for text in (SCRATCH.format(at=0x120), SCRATCH.format(at=40).replace("mov.u32 %r1, %reserved_smem_offset_1", "mov.u32 %r1, 0")):
        run = gpu.launch(ptx_kernels.kernel(text, ".b64 out", shared=16, arch="sm_100a"), "k", block=64, args=[out], progress=False)
        assert "is reserved for the system" in run.findings[0].message


def test_vector_registers_are_their_elements():
    """PTX ISA 9.1 §5.4.2 and 6.4.2: .x and .r are the first element; the name alone is the vector. A register of the
    same name around it is another; ptxas takes an alignment, which says nothing, and numbers of vectors.
    """
    body = """mov.u32 %r2, sm; mov.u32 %r3, 9; {
        .reg .v4 .u32 %r3; .reg .align 16 .v2 .b64 v, w<3>;
        mov.u32 %r3.x, 1; mov.u32 %r3.g, 2; add.u32 %r3.b, %r3.r, %r3.y; mov.u32 %r3.w, 4;
        st.shared.v4.u32 [%r2], %r3; ld.shared.v2.b64 w2, [%r2]; st.global.v2.b64 [%d20], w2; st.global.b64 [%d20+16], w2.y;
    } st.global.u32 [%d20+24], %r3;"""
    (out,) = launch(body, np.zeros(8, np.uint32), block=1)
    assert out.tolist() == [1, 2, 3, 4, 3, 4, 9, 0]


@pytest.mark.parametrize("element", [1, 2])
def test_an_index_of_32_bits_that_overflows_is_told_with_the_element_that_was_meant(element):
    """The array is memory that nothing touches; the repaired twin is silent."""
    device = VirtualDevice("sm_90a", policy=Policy.of(quiet=True, on_finding="collect"))
    address = device.allocate((1 << 31) * element + 64)
    index = "mul.lo.s32 %r2, %r1, 0x20000000; "
    for wide in (True, False):
        place = (
            f"mul.wide.s32 %d1, %r1, 0x20000000; mul.lo.s64 %d1, %d1, {element};" if wide else f"{index} mul.wide.s32 %d1, %r2, {element};"
        )
        text = kernel(1, f"setp.eq.u32 %p1, %r1, 4; {place} add.s64 %d1, %d1, %d20; @%p1 ld.global.nc.u8 %r3, [%d1];")
        run = device.launch(device.load(text).function("k"), 1, 5, [np.uint64(address).tobytes()])
        if wide:
            assert run.findings == []
            continue
        (finding,) = run.findings
        assert (finding.code, finding.repair.startswith("compute the index in 64 bits: (size_t)")) == ("X001", True)
        assert f"before element {1 << 31} of" in finding.message


def test_one_of_several_ctas_may_copy_a_map_from_the_memory_of_the_system():
    """CTA 1 has a wrong address, which a card accesses without an error. The others copy their own map."""
    body = """mov.u32 %r2, %ctaid.x; mov.u32 %r3, own; shl.b32 %r4, %r1, 2; add.u32 %r5, %r3, %r4; mad.lo.u32 %r6, %r2, 100, %r1; st.shared.u32 [%r5], %r6; bar.sync 0;
    setp.eq.u32 %p2, %r2, 1; selp.u32 %r7, 128, %r3, %p2; mul.wide.u32 %d1, %r2, 128; add.u64 %d2, %d20, %d1;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d2], [%r7], 128;"""
    gpu = Gpu("sm_90a")
    out = gpu.array(np.zeros((3, 32), np.uint32))
    text = kernel(1, body.replace("; ", ";\n"), variables=".shared .align 128 .b8 own[128];")
    run = gpu.launch(text, block=32, grid=3, args=[out], progress=False)
    assert [f.code for f in run.findings] == ["X001"]
    assert np.array_equal(out.numpy()[[0, 2]], np.array([[0], [200]]) + np.arange(32))


def test_vectors_of_eight_and_cache_hints_have_the_sizes_that_ptx_has():
    """Evictions from L2 are for 32 bytes, which are global memory; orders and cache operators exclude each other."""
    halves = "{%h1,%h2,%h3,%h4,%h5,%h6,%h7,%h8}"
    right = [f"ld.global.L2::evict_last.v8.b32 {EIGHT}, [%d0];", f"st.global.L2::evict_first.v4.b64 [%d0], {FOUR};", f"ld.v8.f32 {EIGHT}, [%d0];"]  # fmt: skip
    right += [
        "ld.cg.b32 %r1, [%d0];",
        "ld.relaxed.gpu.L1::evict_last.b32 %r1, [%d0];",
        "ld.volatile.shared.b32 %r1, [%r0];",
        "ld.volatile.b32 %r1, [%d0];",
    ]
    wrong = [f"ld.global.v8.b16 {halves}, [%d0];", f"st.v8.u16 [%d0], {halves};", f"ld.global.v8.u8 {halves}, [%d0];"]
    wrong += ["ld.global.L2::evict_last.b32 %r1, [%d0];", "ld.global.L2::evict_last.v4.b32 {%r1,%r2,%r3,%r4}, [%d0];"]
    wrong += ["ld.volatile.global.cg.b32 %r1, [%d0];", "ld.relaxed.gpu.ca.b32 %r1, [%d0];", "ld.volatile.L1::evict_last.b32 %r1, [%d0];"]
    wrong += ["ld.volatile.local.b32 %r1, [%d0];", "ld.volatile.param.b32 %r1, [%d0];", "ld.volatile.const.b32 %r1, [%d0];"]
    assert refused(right) == {}
    assert sorted(refused(wrong)) == [*range(len(wrong))]


@pytest.mark.parametrize(("begin", "size"), [(0, 0), (0, 8), (8, 8), (4088, 8), (16, 1024), (0, 4096)])
def test_st_bulk_writes_zeros_from_its_address_on(begin, size):
    """Up to the whole window; sizes and addresses are multiples of 8."""
    fills = "mad.lo.u32 %r4, %r1, 128, 0; mov.u32 %r3, sm; add.u32 %r3, %r3, %r4; mov.u32 %r5, 7;"
    fills += " ".join(f"st.shared.u32 [%r3+{n}], %r5;" for n in range(0, 128, 4))
    bulk = "bar.warp.sync -1; mov.u32 %r6, sm; add.u32 %r6, %r6, {}; mov.u64 %d1, {}; @%p9 st.bulk.weak.shared::cta [%r6], %d1, 0; bar.warp.sync -1;"
    reads = "cvt.u64.u32 %d2, %r4; add.u64 %d2, %d20, %d2;"
    reads += " ".join(f"ld.shared.u32 %r5, [%r3+{n}]; st.global.u32 [%d2+{n}], %r5;" for n in range(0, 128, 4))
    given = {"arch": "sm_100a", "text": {"variables": ".shared .align 16 .b8 sm[4096];"}}
    (left,) = launch(f"{fills} {bulk.format(begin, size)} {reads}", np.zeros(1024, np.uint32), **given)
    wanted = np.full(1024, 7)
    wanted[begin // 4 : (begin + size) // 4] = 0
    assert left.tolist() == wanted.tolist()
    for at, length, bad in ((begin + 4, size, f": {1024 + begin + 4}:"), (begin, size + 4, f": {size + 4}:"), (begin + 4, size + 4, f": {size + 4}:")):  # fmt: skip
        with pytest.raises(Unmodelled, match=bad):
            launch(bulk.format(at, length), **given)
