"""Tiles that threads write into shared memory: rows of an operand whose chunks come in different orders are found, without a tensor map that says what is meant."""

import numpy as np
import pytest

from smemsim import Gpu, Run

ROWS, WIDTH = 64, 128  # of a tile with the 128B swizzle, in bytes
DESCRIPTOR = 1 << 62 | 64 << 32 | 1 << 16
RIGHT = "and.b32 %s, %row, 7;"
WRONG = {
    "rows modulo 4": "and.b32 %s, %row, 3;",
    "every second row": "shr.u32 %s, %row, 1; and.b32 %s, %s, 7;",
}
NONE = "mov.b32 %s, 0;"


def kernel(law: str, copy: str) -> str:
    """D = A A^T of a tile of 64 x 64 f16 that 128 threads bring in 16-byte chunks; %s is what a chunk's number is exclusive-ored with."""
    d = ", ".join(f"%f{n}" for n in range(32))
    steps = "\n".join(
        f"add.u64 %a, %word, {2 * k}; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{d}}}, %a, %a, {int(k > 0)}, 1, 1, 0, 0;"
        for k in range(4)
    )
    return f""".version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 out, .param .u32 pitch) {{
  .reg .pred %p; .reg .b32 %t, %q, %row, %c, %s, %to, %pitch, %v<4>; .reg .b64 %from, %out, %at, %word, %a; .reg .f32 %f<32>;
  .shared .align 1024 .b8 tile[{ROWS * WIDTH}];
  ld.param.u64 %from, [from]; ld.param.u64 %out, [out]; ld.param.u32 %pitch, [pitch]; mov.u32 %t, %tid.x; mov.u32 %q, %t;
MORE: shr.u32 %row, %q, 3; and.b32 %c, %q, 7; mul.wide.u32 %at, %row, %pitch; add.u64 %at, %at, %from; mul.wide.u32 %word, %c, 16; add.u64 %at, %at, %word;
  {law}
  xor.b32 %s, %s, %c; shl.b32 %s, %s, 4; mov.u32 %to, tile; add.u32 %to, %to, %s; shl.b32 %s, %row, 7; add.u32 %to, %to, %s;
  {copy}
  add.u32 %q, %q, 128; setp.lt.u32 %p, %q, {ROWS * WIDTH // 16}; @%p bra MORE;
  cp.async.wait_all; fence.proxy.async.shared::cta; bar.sync 0;
  mov.u32 %to, tile; shr.u32 %to, %to, 4; cvt.u64.u32 %word, %to; or.b64 %word, %word, {DESCRIPTOR:#x};
  wgmma.fence.sync.aligned;
  {steps}
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  mul.wide.u32 %at, %t, 4; add.u64 %out, %out, %at; st.global.f32 [%out], %f0; ret;
}}"""


STORE = "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%at];\n  st.shared.v4.b32 [%to], {%v0, %v1, %v2, %v3};"
COPY = "cp.async.cg.shared.global [%to], [%at], 16;"


def run(law: str, *, copy: str = STORE, columns: int = 128, numbers: object = None) -> Run:
    gpu = Gpu("sm_90a")
    held = np.random.default_rng(0).standard_normal((ROWS, columns)).astype(np.float16) if numbers is None else numbers
    out = gpu.array(np.zeros(128, np.float32))
    return gpu.launch(kernel(law, copy), block=128, args=[gpu.array(held), out, 2 * columns], progress=False)


@pytest.mark.parametrize("copy", [STORE, COPY], ids=["st.shared", "cp.async"])
def test_a_tile_in_the_swizzle_of_its_descriptor_is_right(copy: str):
    assert run(RIGHT, copy=copy).findings == []


@pytest.mark.parametrize("copy", [STORE, COPY], ids=["st.shared", "cp.async"])
@pytest.mark.parametrize("name", WRONG)
def test_rows_in_different_orders_are_found(name: str, copy: str):
    (found, *_), ptx = (ran := run(WRONG[name], copy=copy)).findings, ran.ptx.splitlines()
    assert found.code == "R501"
    assert "wgmma.mma_async" in ptx[found.line - 1]
    assert "c ^ (r % 8)" in found.repair
    assert f"line {next(n for n, line in enumerate(ptx, 1) if 'st.shared' in line or 'cp.async.cg' in line)} wrote it" in found.message


def test_rows_as_in_global_memory_may_have_been_swizzled_there():
    """A forgotten swizzle, or weights whose rows were shuffled before: nothing in the program says which, so it is a remark."""
    ran = run(NONE)
    assert (ran.findings, {f.code for f in ran.remarks}) == ([], {"R501"})
    assert "unless these were in that order in global memory before" in ran.remarks[0].message


def test_an_image_of_the_tile_may_have_been_swizzled_before():
    """What lies in global memory as it does in shared memory, all of it."""
    ran = run(NONE, columns=WIDTH // 2)
    assert (ran.findings, ran.remarks) == ([], [])


def test_numbers_that_lie_in_many_places_say_nothing():
    assert run(WRONG["rows modulo 4"], numbers=np.ones((ROWS, 128), np.float16)).findings == []
