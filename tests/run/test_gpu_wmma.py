"""`wmma` of f16 in every shape, layout and mixture of types: products of fragments are products of matrices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from launches import Device, kernel, refused, run

TYPES = {"f16": np.float16, "f32": np.float32}


def registers(first: int, count: int) -> str:
    return "{" + ",".join(f"%r{first + n}" for n in range(count)) + "}"


def product(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, d_type: str, c_type: str, layouts: tuple[str, ...], middle: str = ""
) -> np.ndarray:
    """D as the kernel leaves it; the matrices lie in memory as `layouts` of A, B, C and D say."""
    (m, k), n = a.shape, b.shape[1]
    stored = [x if layout == "row" else x.T for x, layout in zip((a, b, c), layouts, strict=False)]
    device = Device("sm_90a")
    arrays = [device.array(np.ascontiguousarray(x)) for x in stored]
    out = device.array(np.zeros((m, n) if layouts[3] == "row" else (n, m), TYPES[d_type]))
    of = f"m{m}n{n}k{k}"
    la, lb, lc, ld = layouts
    size_c, size_d = (4 if t == "f16" else 8 for t in (c_type, d_type))
    body = f"""
    wmma.load.a.sync.aligned.{la}.{of}.f16 {registers(10, 8)}, [%d20];
    wmma.load.b.sync.aligned.{lb}.{of}.f16 {registers(18, 8)}, [%d21];
    wmma.load.c.sync.aligned.{lc}.{of}.{c_type} {registers(26, size_c)}, [%d22];
    {middle}
    wmma.mma.sync.aligned.{la}.{lb}.{of}.{d_type}.{c_type} {registers(40, size_d)}, {registers(10, 8)}, {registers(18, 8)}, {registers(26, size_c)};
    wmma.store.d.sync.aligned.{ld}.{of}.{d_type} [%d23], {registers(40, size_d)};"""
    done = device.launch(kernel(4, body), "k", block=32, args=[*arrays, out])
    assert not done.result.findings
    found = out.numpy()
    return found if ld == "row" else found.T


def matrices(m: int, n: int, k: int, c_type: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(m * 64 + n)
    whole = [rng.integers(-8, 9, shape) for shape in ((m, k), (k, n), (m, n))]
    return whole[0].astype(np.float16), whole[1].astype(np.float16), whole[2].astype(TYPES[c_type])


@pytest.mark.parametrize("shape", [(16, 16, 16), (32, 8, 16), (8, 32, 16)])
@pytest.mark.parametrize(("d_type", "c_type"), list(itertools.product(TYPES, TYPES)))
def test_a_product_of_small_integers_is_exact(shape: tuple[int, int, int], d_type: str, c_type: str) -> None:
    a, b, c = matrices(*shape, c_type)
    wanted = a.astype(np.float64) @ b.astype(np.float64) + c
    for layouts in (("row",) * 4, ("col",) * 4, ("row", "col", "col", "row"), ("col", "row", "row", "col")):
        assert (product(a, b, c, d_type, c_type, layouts) == wanted).all()


def test_a_sum_that_is_rounded_to_f16_is_rounded_once() -> None:
    """2048 + 1.5: to the even neighbour 2050 where C is f32; a C of f16 was rounded before, 1.0 does not show then."""
    a, b = np.zeros((16, 16), np.float16), np.zeros((16, 16), np.float16)
    a[:, 0], b[0] = 1.5, 1
    c = np.full((16, 16), 2048, np.float32)
    assert (product(a, b, c, "f16", "f32", ("row",) * 4) == 2050).all()
    c[0, 0] = np.nan
    assert product(a, b, c, "f16", "f32", ("row",) * 4).view(np.uint16)[0, 0] == 0x7FFF
    c[0, 0] = 65520
    assert np.isposinf(product(a, b, c, "f16", "f32", ("row",) * 4)[0, 0])


def test_what_is_done_to_every_register_of_a_fragment_is_done_to_every_element_once() -> None:
    """As nvcc compiles a loop over x[i] of an accumulator: wherever the elements are."""
    a, b, c = matrices(16, 16, 16, "f32")
    middle = "".join(f"mov.b32 %f1, %r{26 + n}; fma.rn.f32 %f1, %f1, 0f40000000, 0f3F800000; mov.b32 %r{26 + n}, %f1;\n" for n in range(8))
    wanted = a.astype(np.float64) @ b.astype(np.float64) + 2 * c + 1
    assert (product(a, b, c, "f32", "f32", ("row",) * 4, middle) == wanted).all()


@pytest.mark.parametrize(
    "name",
    ["load.a.sync.aligned.row.m16n16k16.f32 {%r1}, [%d0]", "load.c.sync.aligned.row.m16n16k16.bf16 {%r1}, [%d0]",
     "store.d.sync.aligned.row.m8n8k4.f32 [%d0], {%r1}", "mma.sync.aligned.row.col.m16n16k8.s32.s8.s8.s32 {%r0}, {%r1}, {%r2}, {%r3}",
     "mma.sync.aligned.row.col.m16n16k16.f16.bf16.bf16.f16 {%r0}, {%r1}, {%r2}, {%r3}"],
)  # fmt: skip
def test_fragments_that_ptxas_refuses_are_refused(name: str) -> None:
    assert refused([f"wmma.{name};"])


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("meets", [True, False])
def test_a_fragment_is_loaded_after_what_other_warps_have_stored(space: str, meets: bool) -> None:
    """Warp 1 stores the matrix that warp 0 loads: a race without a barrier between, in the cluster of two as alone."""
    place = "mov.u32 %r40, sm; cvt.u64.u32 %d0, %r40;" if space == "shared" else "mov.b64 %d0, %d20;"
    at = "%r40" if space == "shared" else "%d0"
    body = f"""{place} setp.lt.u32 %p0, %r1, 32; mov.u32 %r41, %ctaid.x; setp.ne.u32 %p1, %r41, 0; and.b32 %r42, %r1, 31; mul.lo.u32 %r43, %r42, 16;
    cvt.u64.u32 %d1, %r43; add.u64 %d1, %d0, %d1; cvt.u32.u64 %r44, %d1;
    @%p1 bra END; @%p0 bra LOADS; st.{space}.v4.b32 [{"%r44" if space == "shared" else "%d1"}], {{%r1, %r1, %r1, %r1}};
    LOADS: {"bar.sync 0;" if meets else ""} @!%p0 bra END;
    wmma.load.a.sync.aligned.row.m16n16k16.{space}.f16 {registers(10, 8)}, [{at}];
    END:"""
    for cluster in (1, 2):
        done, _ = run(body, [np.zeros(256, np.uint32)], block=64, grid=cluster, cluster=cluster)
        assert [f.code for f in done.result.findings.values()] == ([] if meets else ["X008"])
