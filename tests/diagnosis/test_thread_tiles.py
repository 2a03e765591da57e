"""Tiles that threads write into shared memory: rows of an operand whose chunks come in different orders are found,
without a tensor map that says what is meant.
"""

import re
from typing import Any

import numpy as np
import pytest

from smemsim import DeviceArray, Gpu, Run, TensorMap

ROWS, WIDTH = 64, 128  # of a tile with the 128B swizzle, in bytes
DESCRIPTOR = 1 << 62 | 64 << 32 | 1 << 16
RIGHT = "and.b32 %s, %row, 7;"
WRONG = {
    "rows modulo 4": "and.b32 %s, %row, 3;",
    "every second row": "shr.u32 %s, %row, 1; and.b32 %s, %s, 7;",
}
NONE = "mov.b32 %s, 0;"


IN_ROWS = "shl.b32 %s, %s, 4; add.u32 %to, %to, %s; shl.b32 %s, %row, 7; add.u32 %to, %to, %s;"
IN_MATRICES = (  # of 8 rows x 16 bytes: 128 bytes from k to k, 1024 from rows to rows
    "shl.b32 %s, %s, 7; add.u32 %to, %to, %s; shr.u32 %s, %row, 3; shl.b32 %s, %s, 10; add.u32 %to, %to, %s; and.b32 %s, %row, 7; shl.b32 %s, %s, 4; add.u32 %to, %to, %s;"
)


def kernel(law: str, copy: str, *, place: str = IN_ROWS, word: int = DESCRIPTOR, step: int = 2, turned: bool = False, n: int = 64) -> str:
    """D = A A^T of a tile of 64 x 64 f16 that 128 threads bring in 16-byte chunks; %s is what a chunk's number is
    exclusive-ored with.

    `place` puts a chunk, whose number of its row is %s, into the tile; `word` is the descriptor without the address,
    `step` what goes on to the next K. Of B the first `n` rows are multiplied. `turned`: the tile's rows are K.
    """
    d, major = ", ".join(f"%f{i}" for i in range(n // 2)), int(turned)
    steps = "\n".join(
        f"add.u64 %a, %word, {step * k}; wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16 {{{d}}}, %a, %a, {int(k > 0)}, 1, 1, {major}, {major};"
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
  xor.b32 %s, %s, %c; mov.u32 %to, tile; {place}
  {copy}
  add.u32 %q, %q, 128; setp.lt.u32 %p, %q, {ROWS * WIDTH // 16}; @%p bra MORE;
  cp.async.wait_all; fence.proxy.async.shared::cta; bar.sync 0;
  mov.u32 %to, tile; shr.u32 %to, %to, 4; cvt.u64.u32 %word, %to; or.b64 %word, %word, {word:#x};
  wgmma.fence.sync.aligned;
  {steps}
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  mul.wide.u32 %at, %t, 4; add.u64 %out, %out, %at; st.global.f32 [%out], %f0; ret;
}}"""


STORE = "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%at];\n  st.shared.v4.b32 [%to], {%v0, %v1, %v2, %v3};"
COPY = "cp.async.cg.shared.global [%to], [%at], 16;"
WORDS = "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%at]; " + " ".join(f"st.shared.b32 [%to+{4 * n}], %v{n};" for n in range(4))
HALVES = " ".join(f"ld.global.v2.b32 {{%v0, %v1}}, [%at+{n}]; st.shared.v2.b32 [%to+{n}], {{%v0, %v1}};" for n in (0, 8))


def run(
    law: str, *, copy: str = STORE, columns: int = 128, numbers: object = None, grid: int = 1, cluster: int | None = None, **tile: object
) -> Run:
    gpu = Gpu("sm_90a")
    held = np.random.default_rng(0).standard_normal((ROWS, columns)).astype(np.float16) if numbers is None else numbers
    out = gpu.array(np.zeros(128, np.float32))
    return gpu.launch(
        kernel(law, copy, **tile), grid=grid, block=128, cluster=cluster, args=[gpu.array(held), out, 2 * columns], progress=False
    )


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
    assert f"line {next(n for n, line in enumerate(ptx, 1) if 'st.shared' in line or 'cp.async.cg' in line)})" in found.message


def test_rows_as_in_global_memory_may_have_been_swizzled_there():
    """A forgotten swizzle, or weights whose rows were shuffled before: nothing in the program says which, so it is a
    remark.
    """
    ran = run(NONE)
    assert (ran.findings, {f.code for f in ran.remarks}) == ([], {"R501"})
    assert "unless the chunks had this order in global memory" in ran.remarks[0].message


def test_an_image_of_the_tile_may_have_been_swizzled_before():
    """What lies in global memory as it does in shared memory, all of it."""
    ran = run(NONE, columns=WIDTH // 2)
    assert (ran.findings, ran.remarks) == ([], [])


PERIODIC = (np.arange(ROWS * 128) * 5 % 13 - 6).astype(np.float16).reshape(ROWS, 128)  # which lies in many places
HOW = pytest.mark.parametrize("copy", [STORE, COPY, WORDS, HALVES], ids=["st.shared.v4", "cp.async", "st.shared", "st.shared.v2"])


@HOW
def test_chunks_are_followed_whatever_they_hold(copy: str):
    """Numbers that lie in many places say nothing; the loads do."""
    assert run(RIGHT, copy=copy, numbers=PERIODIC).judged.a == (4, 4)
    ran = run(WRONG["rows modulo 4"], copy=copy, numbers=PERIODIC)
    assert ([f.code for f in ran.findings], ran.judged.a) == (["R501", "R501"], (4, 4))
    ran = run(NONE, copy=copy, numbers=PERIODIC)
    assert (ran.findings, {f.code for f in ran.remarks}, ran.judged.a) == ([], {"R501"}, (0, 4))


TURNED, NARROW, NARROWEST = {"turned": True, "step": 128}, {"n": 16}, {"n": 8}
BOTH_SIDES, NEITHER, A_ALONE = ((4, 4), (4, 4)), ((0, 4), (0, 4)), ((4, 4), (0, 4))


@pytest.mark.parametrize(("copy", "numbers"), [(STORE, PERIODIC), (COPY, None)], ids=["st.shared", "cp.async"])
@pytest.mark.parametrize(
    ("law", "form", "sides", "first", "judged"),
    [
        (RIGHT, TURNED, "", "", BOTH_SIDES), (RIGHT, NARROW, "", "", BOTH_SIDES), (RIGHT, NARROWEST, "", "", BOTH_SIDES),
        (WRONG["rows modulo 4"], TURNED, "AB", "k 0 begins with chunk 0 of its row in global memory, and k 4 with chunk 4:", BOTH_SIDES),
        (WRONG["rows modulo 4"], NARROW, "AB", "row 0 begins with chunk 0 of its row in global memory, and row 4 with chunk 4:", BOTH_SIDES),
        (WRONG["rows modulo 4"], NARROWEST, "A", "row 0 begins with chunk 0 of its row in global memory, and row 4 with chunk 4:", A_ALONE),
        (WRONG["every second row"], NARROW, "A", "row 0 begins with chunk 0 of its row in global memory, and row 1 with chunk 1:", A_ALONE),
        (WRONG["every second row"], TURNED, "", "", NEITHER),  # 16 lines of an instruction are one period
    ],
)  # fmt: skip
def test_lines_of_k_and_few_rows_are_looked_at_as_others(law, form, sides, first, judged, numbers, copy):  # type: ignore[no-untyped-def]
    """Operands whose contiguous elements are rows, and B of few rows. What is not known is not judged."""
    ran = run(law, copy=copy, numbers=numbers, **form)
    assert [(f.code, f.message[0]) for f in ran.findings] == [("R501", side) for side in sides], ran.text()
    assert all(first in f.why for f in ran.findings)
    assert (ran.judged.a, ran.judged.b) == judged


@pytest.mark.parametrize("form", [TURNED, NARROW], ids=["turned", "narrow"])
def test_lines_as_in_global_memory_may_have_been_swizzled_there(form):  # type: ignore[no-untyped-def]
    ran = run(NONE, **form)
    assert (ran.findings, [f.code for f in ran.remarks], ran.judged.a) == ([], ["R501", "R501"], (0, 4))


FOUR = "{%v0, %v1, %v2, %v3}"
MORE = ".reg .b64 %y<2>; .reg .f32 %g<4>; .reg .b32 %far; "
FORMS = {
    "pairs of 64 bits": "ld.global.v2.b64 {%y0, %y1}, [%at]; st.shared.v2.b64 [%to], {%y0, %y1};",
    "parts of 64 bits": f"ld.global.v2.u64 {{%y0, %y1}}, [%at]; mov.b64 {{%v0, %v1}}, %y0; mov.b64 {{%v2, %v3}}, %y1; st.shared.v4.b32 [%to], {FOUR};",
    "floats": "ld.global.nc.v4.f32 {%g0, %g1, %g2, %g3}, [%at]; st.shared.v4.f32 [%to], {%g0, %g1, %g2, %g3};",
    "generic": f"ld.v4.b32 {FOUR}, [%at]; cvt.u64.u32 %y0, %to; cvta.shared.u64 %y0, %y0; st.v4.b32 [%y0], {FOUR};",
    "twice": f"ld.global.v4.b32 {FOUR}, [%at]; mapa.shared::cluster.u32 %far, %to, 0; st.shared::cluster.v4.b32 [%far], {FOUR}; "
    f"ld.shared::cluster.v4.b32 {FOUR}, [%far]; st.shared.v4.b32 [%to], {FOUR};",
    "another value before": f"ld.param.u32 %v0, [pitch]; ld.global.v4.b32 {FOUR}, [%at]; st.shared.v4.b32 [%to], {FOUR};",
}


@pytest.mark.parametrize("copy", FORMS.values(), ids=FORMS)
def test_chunks_are_followed_through_every_form_of_a_copy(copy: str):
    for law, codes in ((RIGHT, []), (WRONG["rows modulo 4"], ["R501", "R501"])):
        ran = run(law, copy=f"{{ {MORE} {copy} }}", numbers=PERIODIC, cluster=1)
        assert ([f.code for f in ran.findings], ran.judged.a) == (codes, (4, 4)), ran.text()


@pytest.mark.parametrize(
    "change",
    [
        "add.u32 %v0, %v0, 256; sub.u32 %v0, %v0, 256;",
        "shfl.sync.bfly.b32 %v0, %v0, 0, 31, -1;",
        "add.f32 %g0, %g0, %g1; mov.b32 %v3, %g0;",
    ],
)
def test_values_that_threads_compute_come_from_nowhere(change: str):
    ran = run(
        RIGHT,
        copy=f"{{ {MORE} mov.b32 %g0, 0f00000000; ld.global.v4.b32 {FOUR}, [%at]; mov.b32 %g1, %v3; {change} st.shared.v4.b32 [%to], {FOUR}; }}",
        numbers=PERIODIC,
    )
    assert (ran.findings, ran.judged.a) == ([], (0, 4))


COMPUTED = " ".join(f"not.b32 %w{n}, %v{n}; not.b32 %w{n}, %w{n};" for n in range(4))
AGAIN = f"{{ .reg .b32 %w<4>; ld.global.v4.b32 {FOUR}, [%at]; {COMPUTED} st.shared.v4.b32 [%to], {{%w0, %w1, %w2, %w3}}; }}"


@pytest.mark.parametrize(
    ("law", "form", "whys"),
    [
        *((RIGHT, form, ()) for form in ({}, TURNED, NARROW, NARROWEST)),
        (WRONG["rows modulo 4"], {}, ("row 4 with chunk 4", "row 4 with chunk 4")), (WRONG["rows modulo 4"], TURNED, ("k 4 with chunk 4", "k 4 with chunk 4")),
        (WRONG["rows modulo 4"], NARROW, ("row 4 with chunk 4", "row 4 with chunk 4")), (WRONG["rows modulo 4"], NARROWEST, ("row 4 with chunk 4", "(as they are) only if they are read with swizzle 64B")),
        (WRONG["every second row"], {}, ("row 1 with chunk 1", "row 1 with chunk 1")), (WRONG["every second row"], TURNED, ()),
        (WRONG["every second row"], NARROW, ("row 1 with chunk 1", "read with the XOR c ^ (r // 2 % 8)")),
    ],
)  # fmt: skip
def test_chunks_that_threads_have_computed_are_known_by_what_they_hold(law: str, form: dict[str, int], whys: tuple[str, ...]):
    """Nobody follows values through arithmetic, but chunks of random numbers occur once in global memory."""
    ran = run(law, copy=AGAIN, **form)
    assert [(f.code, f.message[0]) for f in ran.findings] == [("R501", side) for side in "AB"[: len(whys)]], ran.text()
    assert all(why in f.why for f, why in zip(ran.findings, whys, strict=True)), [f.why for f in ran.findings]
    assert (ran.judged.a, ran.judged.b) == (BOTH_SIDES if law == RIGHT else NEITHER)


LOADED = """.shared .align 8 .b64 bar; setp.ne.u32 %p, %t, 0; @%p bra LOADED; mbarrier.init.shared.b64 [bar], 1; fence.proxy.async;
  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 8192; mov.b64 %at, map; cvta.param.u64 %at, %at;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%at, {0, 0}], [bar];
LOADED: bar.sync 0; ON: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0; @!%p bra ON;
MORE:"""


@pytest.mark.parametrize("cohorts", ["on", "off"])
def test_a_tile_that_threads_overwrite_is_the_load_s_no_longer_in_every_tier(cohorts: str, monkeypatch: pytest.MonkeyPatch):
    """A TMA load brings the right tile. Then threads store it once more, in the right order or in a wrong one, from
    machine code or from the interpreter.
    """
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    for law, codes, known in ((RIGHT, [], (12, 12)), (WRONG["rows modulo 4"], ["R501", "R501"], (0, 12))):
        for tier in ("closures", "compiled"):
            monkeypatch.setenv("SMEMSIM_TIERS", tier)
            gpu = Gpu("sm_90a")
            held = gpu.array(np.random.default_rng(0).standard_normal((ROWS, 64)).astype(np.float16))
            box = TensorMap.tiled(
                data_type="f16", global_address=held.address, global_dim=(64, ROWS), global_strides=(WIDTH,), box_dim=(64, ROWS), element_strides=(1, 1),
                interleave="none", swizzle="128B", l2_promotion="none", oob_fill="zeros",
            )  # fmt: skip
            # a program of its own
            text = kernel(law, AGAIN).replace(".version 8.3", f".version 8.3 // {tier} {cohorts}")
            text = text.replace("\nMORE:", LOADED).replace(".param .u32 pitch", ".param .u32 pitch, .param .align 64 .b8 map[128]")
            ran = gpu.launch(text, grid=3, block=128, args=[held, gpu.array(np.zeros(128, np.float32)), WIDTH, box], progress=False)
            assert ([f.code for f in ran.findings], ran.judged.a) == (codes, known), (tier, ran.text())


def descriptor(lbo: int, sbo: int, swizzle: int) -> int:
    return lbo >> 4 << 16 | sbo >> 4 << 32 | swizzle << 62


@HOW
@pytest.mark.parametrize("numbers", [PERIODIC, None], ids=["periodic", "random"])
def test_strides_that_no_row_of_the_array_has_are_found(copy: str, numbers: object):
    tile = {"place": IN_MATRICES, "step": 16, "copy": copy, "numbers": numbers}
    ran = run(NONE, **tile, word=descriptor(128, 1024, 0))
    assert (ran.findings, ran.judged.a) == ([], (4, 4))
    ran = run(NONE, **tile, word=descriptor(1024, 128, 0))
    assert ([f.code for f in ran.findings], ran.judged.a) == (["D308", "D308"], (4, 4))
    first = ran.findings[0]
    assert "is read with LBO 1024 B and SBO 128 B, but threads have stored its tile for LBO 128 B and SBO 1024 B" in first.message
    word = re.search(r"descriptor (0x\w+)", first.message)
    assert word
    right = int(word[1], 16) - descriptor(1024, 128, 0) + descriptor(128, 1024, 0)
    assert first.repair.startswith(f"write LBO 128 B and SBO 1024 B into the descriptor: {right:#018x}. Or store the tile for LBO 1024 B")


def test_another_swizzle_of_the_descriptor_is_found():
    ran = run(RIGHT, numbers=PERIODIC, word=descriptor(16, 1024, 2))
    assert ([f.code for f in ran.findings], ran.judged.a) == (["R501", "R501"], (4, 4))
    assert "is read with swizzle 64B; threads wrote it with swizzle 128B" in ran.findings[0].message


def test_tiles_of_all_ctas_are_checked_until_a_limit_that_is_told():
    ran = run(RIGHT, grid=40)
    assert (ran.judged.a, ran.bounds) == ((160, 160), ())
    ran = run("mov.u32 %s, %ctaid.x; setp.eq.u32 %p, %s, 39; and.b32 %s, %row, 7; @%p and.b32 %s, %row, 3;", grid=40)
    assert ("R501" in {f.code for f in ran.findings}, ran.judged.a) == (True, (160, 160))
    ran = run(RIGHT, grid=250)
    assert 256 <= ran.judged.a[0] < ran.judged.a[1] == 1000
    assert "operand layouts: tiles that threads write are looked for" in ran.bounds[0]
    assert "after the first ones that are looked for" in str(ran.judged)


# ---- Tiles whose elements change on the way: converted from f32, or transposed


def converted(law: str, *, transposed: bool, shift: int = 0, half: int = 0) -> str:
    """D = A B^T of tiles of 64 x 64 f16, two of them along K. A comes from f32, or from (K, M), element by element; B
    is copied in chunks.

    A's second tile is that of the k `shift` further on, modulo 128; B's tiles are those of the k exclusive-ored with
    `half`.
    """
    d = ", ".join(f"%f{n}" for n in range(32))
    step = 256 if transposed else 4  # bytes from k to k, of 128 rows or of f32
    row = 2 if transposed else 512
    load = (
        [f"ld.global.b16 %h{j}, [%at+{j * step}];" for j in range(8)]
        if transposed
        else [f"ld.global.f32 %g, [%at+{j * step}]; cvt.rn.f16.f32 %h{j}, %g;" for j in range(8)]
    )
    pack = [f"mov.b32 %v{j}, {{%h{2 * j}, %h{2 * j + 1}}};" for j in range(4)]
    multiply = "\n".join(
        f"add.u64 %a, %wa, {2 * k}; add.u64 %b, %wb, {2 * k}; "
        f"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {{{d}}}, %a, %b, %more, 1, 1, 0, 0; setp.eq.u32 %more, 0, 0;"
        for k in range(4)
    )
    return f""".version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 from_a, .param .u64 from_b, .param .u64 out) {{
  .reg .pred %p, %more; .reg .b32 %t, %q, %row, %c, %s, %to, %x, %k, %v<4>; .reg .b64 %from, %fromb, %out, %at, %wa, %wb, %a, %b, %y; .reg .f32 %f<32>, %g; .reg .b16 %h<8>;
  .shared .align 1024 .b8 tile[{2 * ROWS * WIDTH}];
  ld.param.u64 %from, [from_a]; ld.param.u64 %fromb, [from_b]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %k, 0; setp.ne.u32 %more, 0, 0;
LOOP: mov.u32 %q, %t;
MORE: shr.u32 %row, %q, 3; and.b32 %c, %q, 7;
  shl.b32 %x, %c, 3; add.u32 %x, %x, %k; setp.gt.u32 %p, %k, 0; @%p add.u32 %x, %x, {shift}; and.b32 %x, %x, 127;
  mul.wide.u32 %at, %x, {step}; add.u64 %at, %at, %from; mul.wide.u32 %y, %row, {row}; add.u64 %at, %at, %y;
  {" ".join(load + pack)}
  {law}
  xor.b32 %s, %s, %c; shl.b32 %s, %s, 4; mov.u32 %to, tile; add.u32 %to, %to, %s; shl.b32 %s, %row, 7; add.u32 %to, %to, %s;
  st.shared.v4.b32 [%to], {{%v0, %v1, %v2, %v3}};
  shl.b32 %x, %c, 3; add.u32 %x, %x, %k; xor.b32 %x, %x, {half}; mul.wide.u32 %at, %x, 2; add.u64 %at, %at, %fromb; mul.wide.u32 %y, %row, 256; add.u64 %at, %at, %y;
  ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%at];
  and.b32 %s, %row, 7; xor.b32 %s, %s, %c; shl.b32 %s, %s, 4; mov.u32 %to, tile; add.u32 %to, %to, %s; shl.b32 %s, %row, 7; add.u32 %to, %to, %s;
  st.shared.v4.b32 [%to+{ROWS * WIDTH}], {{%v0, %v1, %v2, %v3}};
  add.u32 %q, %q, 128; setp.lt.u32 %p, %q, {ROWS * WIDTH // 16}; @%p bra MORE;
  fence.proxy.async.shared::cta; bar.sync 0;
  mov.u32 %to, tile; shr.u32 %to, %to, 4; cvt.u64.u32 %wa, %to; or.b64 %wa, %wa, {DESCRIPTOR:#x}; add.u64 %wb, %wa, {ROWS * WIDTH // 16};
  wgmma.fence.sync.aligned;
  {multiply}
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; bar.sync 0;
  add.u32 %k, %k, 64; setp.lt.u32 %p, %k, 128; @%p bra LOOP;
  shr.u32 %row, %t, 5; shl.b32 %row, %row, 4; and.b32 %c, %t, 31; shr.u32 %s, %c, 2; add.u32 %row, %row, %s; and.b32 %c, %c, 3;
  mul.wide.u32 %at, %row, 256; add.u64 %out, %out, %at; mul.wide.u32 %at, %c, 8; add.u64 %out, %out, %at;
  {" ".join(f"st.global.f32 [%out+{n // 2 % 2 * 2048 + n // 4 * 32 + n % 2 * 4}], %f{n};" for n in range(32))} ret;
}}"""


def run_converted(law: str, *, transposed: bool, shift: int = 0, half: int = 0, few: bool = False) -> Run:
    return product(law, transposed=transposed, shift=shift, half=half, few=few)[0]


def product(law: str, *, transposed: bool, shift: int = 0, half: int = 0, few: bool = False) -> tuple[Run, DeviceArray, np.ndarray]:
    """(the run, D, A B^T) of tiles that change on the way."""
    gpu, rng = Gpu("sm_90a"), np.random.default_rng(1)
    shape, kind = ((128, 128), np.float16) if transposed else ((64, 128), np.float32)
    a = np.resize(rng.standard_normal(16), shape).astype(kind) if few else rng.standard_normal(shape).astype(kind)
    b = rng.standard_normal((64, 128)).astype(np.float16)
    d = gpu.array(np.zeros((64, 64), np.float32))
    text = converted(law, transposed=transposed, shift=shift, half=half)
    run = gpu.launch(text, block=128, args=[gpu.array(a), gpu.array(b), d], progress=False)
    left = (a.T[:64] if transposed else a).astype(np.float16).astype(np.float32)
    return run, d, left @ b.astype(np.float32).T


BOTH = pytest.mark.parametrize("transposed", [False, True], ids=["converted", "transposed"])


@BOTH
def test_tiles_that_change_on_the_way_are_recognised_and_counted(transposed: bool):
    ran = run_converted(RIGHT, transposed=transposed)
    assert (ran.findings, ran.remarks) == ([], [])
    assert (ran.judged.a, ran.judged.b) == ((8, 8), (8, 8))
    assert str(ran.judged) == "checked: operand layouts: A and B in all 8 matrix instructions (1 CTA)"
    assert ran.as_dict()["judged"]["instructions"] == 0  # which tensor loads brought


@pytest.mark.parametrize("most", [0, 1, 3])
def test_tiles_are_looked_for_up_to_a_bound_that_is_told(most: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("smemsim.diagnosis.thread_tiles.MOST_TILES", most)
    ran = run_converted(RIGHT, transposed=False)
    assert (ran.judged.a, ran.judged.b) == ((most, 8), (8, 8))
    assert f"after the first ones that are looked for in global memory ({8 - most} instructions)" in str(ran.judged)
    assert [f.code for f in run_converted(NONE, transposed=False).findings] == ["R501"] * (most > 0)


@BOTH
@pytest.mark.parametrize(
    ("law", "name"), [(NONE, "swizzle none"), (WRONG["rows modulo 4"], "swizzle 64B"), (WRONG["every second row"], "c ^ (r // 2 % 8)")]
)
def test_another_swizzle_of_a_tile_that_changes_on_the_way_is_found(law: str, name: str, transposed: bool):
    ran = run_converted(law, transposed=transposed)
    (found,), ptx = ran.findings, ran.ptx.splitlines()
    assert (found.code, ran.judged.a, ran.judged.b) == ("R501", (0, 8), (8, 8))
    assert f"threads wrote it with {name}" in found.message.replace("the XOR ", "")
    assert ("(transposed)" if transposed else "(converted from f32)") in found.message
    assert "wgmma.mma_async" in ptx[found.line - 1]
    line = next(n for n, text in enumerate(ptx, 1) if "st.shared" in text)
    assert f"(line {line})" in found.message


@BOTH
@pytest.mark.parametrize("shift", [64, 32])
def test_a_and_b_of_one_sum_go_on_by_the_same_k(shift: int, transposed: bool):
    """With a shift of 64 A is multiplied with each half of B's K, like one part of split numbers."""
    ran = run_converted(RIGHT, transposed=transposed, shift=shift)
    (found,) = ran.remarks if shift == 64 else ran.findings
    assert (found.code, ran.judged.a) == ("R508", (8, 8))
    assert ("split numbers" in found.why) == (shift == 64)
    assert "(threads load it from the array at" in found.message
    assert ", B by 16 k" in found.message
    assert found.halves[0].text == "st.shared.v4.b32"
    assert "st.shared" in ran.ptx.splitlines()[found.line - 1]


@BOTH
def test_a_sum_may_go_through_a_and_b_in_different_orders(transposed: bool):
    """The imaginary part of a complex product: re and im of each row lie side by side, and A's re is multiplied with
    B's im.
    """
    ran = run_converted(RIGHT, transposed=transposed, half=64)
    assert (ran.findings, ran.judged.a) == ([], (8, 8))


def test_elements_that_lie_in_many_places_are_not_recognised():
    ran = run_converted(NONE, transposed=False, few=True)
    assert (ran.findings, ran.judged.a, ran.judged.b) == ([], (0, 8), (8, 8))
    assert "without a tensor load" in str(ran.judged)


@pytest.mark.parametrize(
    ("law", "told", "few"),
    [
        (NONE, "A was written with swizzle none and read with 128B", False),
        (NONE, "A was written with swizzle none and read with 128B", True),
        (WRONG["every second row"], "16-byte chunks of A are multiplied in the place of others", False),
    ],
)
def test_an_expected_array_says_how_the_tile_was_written(law: str, told: str, few: bool):
    """Also if the elements are alike in many places, so that nothing is recognised: D is what the fault makes of A and
    B.
    """
    run, d, expected = product(law, transposed=False, few=few)
    assert bool(run.findings) != few
    assert told in run.explain(d, expected)
    right, d, expected = product(RIGHT, transposed=False, few=few)
    assert right.explain(d, expected) == ""
    np.testing.assert_allclose(d.numpy(), expected, atol=1e-3)


# ---- Sums of tiles that threads bring, step by step


def sum_of(steps: list[tuple[int, int, int, int, int]], copy: str, bits: int = 128) -> str:
    """D = sum of A B^T, 64 x 8 x 16 f16 at each step: (array of A, its k, array of B, its k, its first row). Threads
    copy each tile in chunks of 16 bytes, as core matrices without a swizzle.
    """
    bring = {
        "cp.async": "cp.async.cg.shared.global [%to], [%at], 16;",
        "st.shared": "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%at]; st.shared.v4.b32 [%to], {%v0, %v1, %v2, %v3};",
        "computed": "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%at]; not.b32 %v0, %v0; not.b32 %v0, %v0; st.shared.v4.b32 [%to], {%v0, %v1, %v2, %v3};",
    }[copy]
    text = []
    for n, (a, of_a, b, of_b, row) in enumerate(steps):
        text.append(f"""
  ld.param.u64 %from, [a{a}]; mul.wide.u32 %at, %row, {bits}; add.u64 %at, %at, %from; mul.wide.u32 %y, %c, 16; add.u64 %at, %at, %y; add.u64 %at, %at, {2 * of_a};
  mov.u32 %to, tile; add.u32 %to, %to, %place; {bring}
  @%few bra NO{n}; ld.param.u64 %from, [b{b}]; mul.wide.u32 %at, %row, {bits}; add.u64 %at, %at, %from; add.u64 %at, %at, %y; add.u64 %at, %at, {2 * of_b + bits * row};
  mov.u32 %to, tile; add.u32 %to, %to, %place_b; {bring}
NO{n}: cp.async.wait_all; fence.proxy.async.shared::cta; bar.sync 0; wgmma.fence.sync.aligned;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %wa, %wb, {int(n > 0)}, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; bar.sync 0;""")
    return f""".version 8.3
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 a0, .param .u64 a1, .param .u64 b0, .param .u64 b1, .param .u64 out) {{
  .reg .pred %few; .reg .b32 %t, %row, %c, %to, %place, %place_b, %x, %v<4>; .reg .b64 %from, %at, %y, %wa, %wb, %out; .reg .f32 %f<4>;
  .shared .align 128 .b8 tile[2304];
  mov.u32 %t, %tid.x; setp.ge.u32 %few, %t, 16; shr.u32 %row, %t, 1; and.b32 %c, %t, 1;
  shl.b32 %place, %c, 10; shl.b32 %x, %row, 4; add.u32 %place, %place, %x; shl.b32 %place_b, %c, 7; add.u32 %place_b, %place_b, %x; add.u32 %place_b, %place_b, 2048;
  mov.u32 %to, tile; shr.u32 %x, %to, 4; cvt.u64.u32 %wa, %x; or.b64 %wa, %wa, {descriptor(1024, 128, 0):#x}; add.u64 %wb, %wa, 128; sub.u64 %wb, %wb, {(1024 - 128) >> 4 << 16};
  {"".join(text)}
  ld.param.u64 %out, [out]; mul.wide.u32 %at, %t, 16; add.u64 %out, %out, %at; st.global.v4.f32 [%out], {{%f0, %f1, %f2, %f3}}; ret;
}}"""


K = [0, 16, 32, 48]
SUMS = {  # which k of A and of B each step multiplies, the codes, and is something not decided?
    "right": ([(0, k, 0, k, 0) for k in K], [], False),
    "both in another order": ([(0, k, 0, k, 0) for k in (32, 0, 48, 16)], [], False),
    "both rotated": ([(0, (k + 16) % 64, 0, (k + 16) % 64, 0) for k in K], [], False),
    "high and low parts": ([(a, k, b, k, 0) for k in K for a, b in ((0, 0), (1, 0), (0, 1))], [], False),
    "parts of a complex number": ([(0, k, 0, k ^ 32, 0) for k in K], [], True),
    "B is rotated": ([(0, k, 0, (k + 16) % 64, 0) for k in K], [], True),
    "a low part is a tile off": ([(a, k, b, (k + 16 * b) % 64, 0) for k in K for a, b in ((0, 0), (1, 0), (0, 1))], [], True),
    "a low part is of other rows": ([(a, k, b, k, 8 * b) for k in K for a, b in ((0, 0), (1, 0), (0, 1))], [], True),
    "rows change": ([(0, k, 0, k, k // 48 * 8) for k in K], [], True),
    "B begins one tile later": ([(0, k, 0, k + 16, 0) for k in K[:3]], [], True),
    "one high part and two": ([(0, k, 0, k + low, 0) for low in (0, 32) for k in K[:2]], ["R508"], False),
    "one high part and two, in turn": ([(0, k, 0, k + low, 0) for k in K[:2] for low in (0, 32)], ["R508"], False),
    "three parts": ([(0, k + low, 0, k, 0) for low in (0, 32, 64) for k in K[:2]], ["R508"], False),
    "A stays": ([(0, k // 32 * 16, 0, k, 0) for k in K], ["R508"], False),
    "A goes on by another step": ([(0, k // 2, 0, k, 0) for k in (0, 32, 64)], ["R508"], False),
    "a stage is read twice": ([(0, k, 0, of_b, 0) for k, of_b in zip(K, (0, 16, 16, 48), strict=True)], ["R508"], False),
    "two stages are exchanged": ([(0, a, 0, b, 0) for a, b in ((0, 0), (16, 16), (32, 32), (48, 64), (64, 48), (80, 80))], ["R508"], False),
}  # fmt: skip


MAY_BE_MEANT = ("two stages are exchanged", "one high part and two", "one high part and two, in turn", "three parts")


def judge_sum(name: str, copy: str, way: str = "") -> None:
    """`way` makes the text a program of its own."""
    steps, codes, is_open = SUMS[name]
    gpu, rng = Gpu("sm_90a"), np.random.default_rng(0)
    arrays = [gpu.array(rng.standard_normal((rows, 96)).astype(np.float16)) for rows in (64, 64, 16, 16)]
    text = sum_of(steps, copy, 192).replace(".version 8.3", f".version 8.3 // {way}")
    ran = gpu.launch(text, block=128, grid=2, args=[*arrays, gpu.array(np.zeros(512, np.float32))], progress=False)
    is_remark = name in MAY_BE_MEANT
    told = [f for f in (ran.remarks if is_remark else ran.findings) if f.code[0] == "R"]
    assert ([f.code for f in told], len(ran.findings)) == (codes, 0 if is_remark else len(codes)), ran.text()
    if copy != "computed" or len(steps) < 12:  # by their values, tiles of one array alone are recognised
        assert ("same k and rows" in str(ran.judged)) == is_open, ran.text()
        assert (ran.judged.a, ran.judged.b) == ((2 * len(steps),) * 2,) * 2
    assert "not checked" in str(ran.judged) or not is_open
    if codes:
        assert ("st.shared" if copy != "cp.async" else "cp.async.cg") in ran.ptx.splitlines()[
            next(f.line for f in told if f.code == "R508") - 1
        ]


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_of_tiles_that_threads_bring_is_right_or_found_or_not_decided(name: str, monkeypatch: pytest.MonkeyPatch):
    """Never a silent clean bill: where A and B may take other k, the summary says so."""
    monkeypatch.setenv("SMEMSIM_TIERS", "closures")
    judge_sum(name, "cp.async")


@pytest.mark.parametrize(("copy", "cohorts"), [("cp.async", "off"), ("st.shared", "on"), ("computed", "on")])
@pytest.mark.parametrize("name", ["right", "B is rotated", "two stages are exchanged"])
def test_sums_are_judged_alike_whoever_brings_their_tiles_in_every_tier(
    name: str, copy: str, cohorts: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    for tier in ("closures", "compiled") if name == "two stages are exchanged" else ("compiled",):
        monkeypatch.setenv("SMEMSIM_TIERS", tier)
        judge_sum(name, copy, f"{tier} {cohorts}")


# cp.async brings a chunk to a place of its own, and the thread copies it on
STAGED = """mov.u32 %raw, raw; shl.b32 %x, %t, 4; add.u32 %raw, %raw, %x; cp.async.cg.shared.global [%raw], [%at], 16; cp.async.wait_all;
  ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%raw]; st.shared.v4.b32 [%to], {%v0, %v1, %v2, %v3};"""


# by a store to the CTA that completes on an mbarrier
SENT = """mbarrier.init.shared.b64 [%n+1024], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 %d0, [%n+1024], 8;
  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%n], %z, [%n+1024];
  { POLL: mbarrier.try_wait.parity.shared.b64 %q0, [%n+1024], 0; @!%q0 bra POLL; } ld.shared.u64 %z, [%n]; mbarrier.inval.shared.b64 [%n+1024];"""
LOOK_UPS = {  # where a tile lies: by itself, by a number from memory, or from a counter, which may go through shared memory
    "nowhere": ("mov.u64 %z, 0;", False),
    "memory": ("ld.global.u64 %z, [%z];", True),
    "counter": ("atom.global.add.u64 %z, [%z], 0;", False),
    "counter for all": ("atom.global.add.u64 %z, [%z], 0; st.shared.u64 [%n], %z; ld.shared.u64 %z, [%n];", False),
    "memory for all": ("ld.global.u64 %z, [%z]; st.shared.u64 [%n], %z; ld.shared.u64 %z, [%n];", True),
    "copied for all": (
        "mov.u64 %d0, 0; st.shared.u64 [%n], %d0; cp.async.ca.shared.global [%n], [%z], 8; cp.async.wait_all; ld.shared.u64 %z, [%n];",
        True,
    ),
    "counter sent to all": (f"atom.global.add.u64 %z, [%z], 0; {SENT}", False),
    "memory sent to all": (f"mov.u64 %d0, 0; st.shared.u64 [%n], %d0; ld.global.u64 %z, [%z]; {SENT}", True),
    "exchange": ("atom.global.exch.b64 %z, [%z], 0;", True),
}


@pytest.mark.parametrize(
    ("copy", "where"),
    [
        *((copy, where) for copy in ("cp.async", "st.shared", "staged") for where in ("nowhere", "memory")),
        *(("cp.async", w) for w in LOOK_UPS),
    ],
)
def test_a_place_that_is_looked_up_in_memory_may_be_meant(copy: str, where: str):
    """A page table may name a page twice."""
    look_up, is_looked_up = LOOK_UPS[where]
    steps, codes, _ = SUMS["a stage is read twice"]
    text = sum_of(steps, "cp.async" if copy == "staged" else copy, 192)
    if copy == "staged":
        text = text.replace("cp.async.cg.shared.global [%to], [%at], 16;", STAGED).replace(".reg .b32 %t,", ".reg .b32 %raw, %t,")
        text = text.replace("tile[2304];", "tile[2304]; .shared .align 16 .b8 raw[2048];")
    text = text.replace(".reg .b64 %from,", ".reg .b32 %n, %all; .reg .pred %q0; .reg .b64 %z, %d0, %from,")
    text = text.replace(
        "tile[2304];",
        "tile[2304]; .shared .align 8 .b8 numbers[2048]; mov.u32 %t, %tid.x; mov.u32 %all, numbers; mad.lo.u32 %n, %t, 8, %all;",
    )
    text = text.replace(
        "ld.param.u64 %from, [b0]; mul", f"ld.param.u64 %z, [out]; {look_up} ld.param.u64 %from, [b0]; add.u64 %from, %from, %z; mul"
    )
    gpu, rng = Gpu("sm_90a"), np.random.default_rng(0)
    arrays = [gpu.array(rng.standard_normal((rows, 96)).astype(np.float16)) for rows in (64, 64, 16, 16)]
    ran = gpu.launch(text, cluster=1, block=128, args=[*arrays, gpu.array(np.zeros(512, np.float32))], progress=False)
    told = [[f.code for f in of if f.code == "R508"] for of in (ran.findings, ran.remarks)]
    assert told == ([[], codes] if is_looked_up else [codes, []]), ran.text()


# ---- Sums of mma.sync and wmma


def warp_sum(steps: list[tuple[int, int, int, int, int]], how: str) -> str:
    """`sum_of` by one warp, 16 x 8 x 16 (wmma: 16 x 16 x 16), of rows of 192 bytes. Its registers come from global memory,
    or by ldmatrix from what it has stored.
    """
    text = []
    for n, (a, of_a, b, of_b, row) in enumerate(steps):
        text.append(
            f"ld.param.u64 %a, [a{a}]; add.u64 %a, %a, {2 * of_a}; ld.param.u64 %b, [b{b}]; add.u64 %b, %b, {2 * of_b + 192 * row};"
        )
        if how == "wmma":
            text.append("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7}, [%a], 96;")
            text.append("wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {%y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7}, [%b], 96;")
            d = "{%d0, %d1, %d2, %d3, %d4, %d5, %d6, %d7}"
            text.append(
                f"wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {d}, {{%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7}}, {{%y0, %y1, %y2, %y3, %y4, %y5, %y6, %y7}}, {d};"
            )
            continue
        if how == "ldmatrix":
            text.append("""mad.wide.u32 %p, %row, 192, %a; ld.global.v4.b32 {%y0, %y1, %y2, %y3}, [%p]; st.shared.v4.b32 [%to], {%y0, %y1, %y2, %y3};
              ld.global.v4.b32 {%y0, %y1, %y2, %y3}, [%p+16]; st.shared.v4.b32 [%to+16], {%y0, %y1, %y2, %y3}; bar.warp.sync -1;
              ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%x0, %x1, %x2, %x3}, [%in]; bar.warp.sync -1;""")
        else:
            text.append(
                "add.u64 %p, %a, %at; ld.global.b32 %x0, [%p]; ld.global.b32 %x1, [%p+1536]; ld.global.b32 %x2, [%p+16]; ld.global.b32 %x3, [%p+1552];"
            )
        text.append("add.u64 %p, %b, %at; ld.global.b32 %y0, [%p]; ld.global.b32 %y1, [%p+16];")
        now, then = (f"{{%d{n % 2 * 4}, %d{n % 2 * 4 + 1}, %d{n % 2 * 4 + 2}, %d{n % 2 * 4 + 3}}}" for n in (n, n + 1))
        text.append(f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {then}, {{%x0, %x1, %x2, %x3}}, {{%y0, %y1}}, {now};")
    body, last = "\n  ".join(text), 0 if how == "wmma" else len(steps) % 2 * 4
    return f""".version 8.3
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a0, .param .u64 a1, .param .u64 b0, .param .u64 b1, .param .u64 out) {{
  .reg .b32 %l, %g, %c, %row, %to, %in, %x<8>, %y<8>; .reg .b64 %a, %b, %p, %at, %out; .reg .f32 %d<8>; .shared .align 128 .b8 tile[768];
  mov.u32 %l, %tid.x; shr.u32 %g, %l, 2; and.b32 %c, %l, 3; shl.b32 %c, %c, 2; mad.lo.u32 %c, %g, 192, %c; cvt.u64.u32 %at, %c;
  and.b32 %row, %l, 15; mov.u32 %to, tile; mad.lo.u32 %to, %row, 48, %to; shr.u32 %g, %l, 4; mad.lo.u32 %in, %g, 16, %to;
  {" ".join(f"mov.f32 %d{n}, 0f00000000;" for n in range(8))}
  {body}
  ld.param.u64 %out, [out]; mul.wide.u32 %p, %l, 16; add.u64 %out, %out, %p; st.global.v4.f32 [%out], {{%d{last}, %d{last + 1}, %d{last + 2}, %d{last + 3}}}; ret;
}}"""


@pytest.mark.parametrize(("how", "names"), [("global", tuple(SUMS)), ("ldmatrix", ("right", "B is rotated", "a stage is read twice")), ("wmma", ("right", "a stage is read twice"))])  # fmt: skip
def test_a_sum_of_warps_is_right_or_found_or_not_decided(how: str, names: tuple[str, ...]):
    """Whatever brings the operands into registers: where they lie in global memory shows which k is multiplied."""
    for name in names:
        steps, codes, is_open = SUMS[name]
        gpu, rng = Gpu("sm_80"), np.random.default_rng(0)
        arrays = [gpu.array(rng.standard_normal((64, 96)).astype(np.float16)) for _ in range(4)]
        ran = gpu.launch(warp_sum(steps, how), block=32, grid=2, args=[*arrays, gpu.array(np.zeros(128, np.float32))], progress=False)
        assert ([f.code for f in ran.findings], [f.code for f in ran.remarks]) == ([], codes), (name, ran.text())
        assert ("same k and rows" in str(ran.judged)) == is_open, (name, ran.text())
        assert "mma and wmma, whose operands are registers" in str(ran.judged)
        if codes:
            assert "mma.sync" in ran.ptx.splitlines()[ran.remarks[0].line - 1]


@pytest.mark.parametrize("cohorts", ["on", "off"])
def test_sums_of_warps_are_judged_alike_in_every_tier_and_by_several_processes(cohorts: str, monkeypatch: pytest.MonkeyPatch):
    """The CTA in the middle multiplies another k than the others."""
    monkeypatch.setenv("SMEMSIM_COHORTS", cohorts)
    text = warp_sum(SUMS["right"][0], "global")
    wrong = text.replace(
        "ld.param.u64 %b, [b0]; add.u64 %b, %b, 64;",
        "ld.param.u64 %b, [b0]; mov.u32 %g, %ctaid.x; setp.ne.u32 %q, %g, 8; add.u64 %b, %b, 32; @%q add.u64 %b, %b, 32;",
    )
    wrong = wrong.replace(".reg .b32 %l,", ".reg .pred %q; .reg .b32 %l,")
    for tier, workers, ptx, codes in (("closures", 1, wrong, ["R508"]), ("compiled", 2, wrong, ["R508"]), ("compiled", 2, text, [])):
        monkeypatch.setenv("SMEMSIM_TIERS", tier)
        gpu, rng = Gpu("sm_80"), np.random.default_rng(0)
        arrays = [gpu.array(rng.standard_normal((64, 96)).astype(np.float16)) for _ in range(4)]
        ran = gpu.launch(ptx, block=32, grid=16, args=[*arrays, gpu.array(np.zeros(128, np.float32))], progress=False, workers=workers)
        assert [f.code for f in ran.remarks if f.code[0] == "R"] == codes, (tier, workers, ran.text())


@pytest.mark.parametrize("how", ["global", "wmma"])
@pytest.mark.parametrize("of_b", ["all alike", "two alike"])
def test_sums_of_warps_whose_numbers_repeat_are_judged_by_where_these_come_from(of_b: str, how: str):
    """Rows of B that are alike at several k. What mma.sync multiplies is followed from where it was loaded. What
    wmma.load brings is not: there a wrong sum is not judged. A right one, whose tiles of B seem to come in another order
    than those of A, has no remark.
    """
    gpu, rng = Gpu("sm_80"), np.random.default_rng(0)
    numbers = [rng.standard_normal((64, 96)).astype(np.float16) for _ in range(4)]
    steps = SUMS["a stage is read twice"][0]
    if of_b == "all alike":
        numbers = [np.tile(one[:, :16], 6) for one in numbers]
    else:
        numbers[2][:, 64:80] = numbers[2][:, 48:64]
        steps = [(0, k, 0, k, 0) for k in (0, 16, 32, 64, 48, 80)]
    arrays = [gpu.array(one) for one in numbers]
    ran = gpu.launch(warp_sum(steps, how), block=32, args=[*arrays, gpu.array(np.zeros(256, np.float32))], progress=False)
    codes = ["R508"] if (of_b, how) == ("all alike", "global") else []
    assert ([f.code for f in ran.findings], [f.code for f in ran.remarks]) == ([], codes), ran.text()


# ---- The order of the elements in fragments


def fragments(
    *, a: str = "mk", b: str = "kn", trans: tuple[bool, bool] = (False, True), masks: tuple[int, int] = (7, 7), by: str = "ld", k: str = "0",
    lines: int = 1, given: str = "a0 a1 a2 a3 b0 b1",
) -> str:  # fmt: skip
    """An mma.sync of 16 x 8 x 16 of tiles of 16 lines of 128 bytes, which lie as the letters say, the contiguous one last.

    Threads store chunk c of a line r at c ^ r / lines & masks[0], ldmatrix reads it at c ^ r & masks[1]. `k`: where the CTA's
    slice begins in both.
    """
    text = []
    for side, (lies, to) in enumerate(((a, 0), (b, 2048))):
        along_k = f"shl.b32 %t, {k}, {1 if lies[1] == 'k' else 7}; cvt.u64.u32 %p, %t;"
        text.append(f"ld.param.u64 %from, [p{side}]; {along_k} add.u64 %from, %from, %p;")
        for n in range(4):
            text.append(
                f"shr.u32 %r, %l, 3; add.u32 %r, %r, {4 * n}; and.b32 %c, %l, 7; mad.wide.u32 %p, %r, 128, %from; mad.wide.u32 %p, %c, 16, %p; shr.u32 %x, %r, {lines - 1}; and.b32 %x, %x, {masks[0]}; "
                f"xor.b32 %c, %c, %x; mad.lo.u32 %t, %r, 128, %base; mad.lo.u32 %t, %c, 16, %t; add.u32 %t, %t, {to};"
            )
            copies = {
                "ld": "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%p]; st.shared.v4.b32 [%t], {%v0, %v1, %v2, %v3};",
                "cp.async": "cp.async.cg.shared.global [%t], [%p], 16;",
            }
            text.append(copies[by])
    text.append("cp.async.wait_all; bar.sync 0;")
    of_lane = {  # its line and its chunk
        (0, "mk"): "and.b32 %r, %l, 15; shr.u32 %c, %l, 4;",
        (0, "km"): "and.b32 %r, %l, 7; shr.u32 %t, %l, 4; mad.lo.u32 %r, %t, 8, %r; shr.u32 %c, %l, 3; and.b32 %c, %c, 1;",
        (1, "kn"): "and.b32 %r, %l, 15; mov.u32 %c, 0;",
        (1, "nk"): "and.b32 %r, %l, 7; shr.u32 %c, %l, 3; and.b32 %c, %c, 1;",
    }
    for side, (lies, loaded, count) in enumerate(((a, "{%a0, %a1, %a2, %a3}", 4), (b, "{%b0, %b1}", 2))):
        text.append(
            f"{of_lane[side, lies]} and.b32 %x, %r, {masks[1]}; xor.b32 %c, %c, %x; mad.lo.u32 %t, %r, 128, %base; mad.lo.u32 %t, %c, 16, %t;"
        )
        text.append(
            f"add.u32 %t, %t, {2048 * side}; ldmatrix.sync.aligned.m8n8.x{count}{'.trans' * trans[side]}.shared.b16 {loaded}, [%t];"
        )
    body, names = "\n  ".join(text), [f"%{one}" for one in given.split()]
    return f""".version 8.3
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 out) {{
  .reg .b32 %l, %r, %c, %x, %t, %base, %k, %v<4>, %a<4>, %b<2>; .reg .b64 %from, %p; .reg .f32 %d<4>; .shared .align 128 .b8 tiles[4096];
  mov.u32 %l, %tid.x; mov.u32 %base, tiles; mov.u32 %k, %ctaid.x;
  {body}
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%d0, %d1, %d2, %d3}}, {{{", ".join(names[:4])}}}, {{{", ".join(names[4:])}}}, {{0f00000000, 0f00000000, 0f00000000, 0f00000000}};
  ld.param.u64 %from, [out]; {" ".join(f"mad.wide.u32 %p, %l, 16, %from; red.global.add.f32 [%p+{4 * n}], %d{n};" for n in range(4))} ret;
}}"""


ORDERS: dict[str, tuple[dict[str, Any], str]] = {
    "right": ({}, ""),
    "A along its rows": ({"a": "km", "trans": (True, True)}, ""),
    "B along k": ({"b": "nk", "trans": (False, False)}, ""),
    "no swizzle": ({"masks": (0, 0)}, ""),
    "another swizzle": ({"masks": (6, 6)}, ""),
    "B without .trans": ({"trans": (False, False)}, "block of B is multiplied transposed"),
    "B with .trans": ({"b": "nk"}, "block of B is multiplied transposed"),
    "A with .trans": ({"trans": (True, True)}, "block of A is multiplied transposed"),
    "A without .trans": ({"a": "km"}, "block of A is multiplied transposed"),
    "swizzle at the write": ({"masks": (7, 0)}, "chunks of A are exchanged: chunk c of row r is where c ^ x belongs, for r = 0 to 7 with x = 0, 1, 2, 3, 4, 5, 6, 7"),
    "swizzle at the read": ({"masks": (0, 6), "a": "km", "trans": (True, True)}, "chunk c of k r is where c ^ x belongs, for r = 0 to 7 with x = 0, 0, 2, 2, 4, 4, 6, 6"),
    "a swizzle of 16 lines": ({"lines": 2}, "for r = 0 to 15 with x = 0, 1, 3, 2, 6, 7, 5, 4, 4"),
    "registers of A": ({"given": "a0 a2 a1 a3 b0 b1"}, "block of A is multiplied transposed"),
    "registers of B": ({"given": "a0 a1 a2 a3 b1 b0"}, "multiplies the first half of A's k with the second half of B's"),
    "registers of both": ({"given": "a2 a3 a0 a1 b1 b0"}, ""),
    "two swizzles": ({"masks": (7, 6), "b": "nk", "trans": (False, False)}, "with x = 0, 1, 0, 1, 0, 1, 0, 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_the_order_of_elements_in_fragments_is_followed_whatever_the_numbers_are(name: str):
    """Without .trans, or with a swizzle on one side only, a product multiplies other elements. An array may be stored so:
    it is a remark.
    """
    how, said = ORDERS[name]
    for by in ("ld", "cp.async", "numbers of 8 bits"):
        gpu = Gpu("sm_80")
        arrays = [gpu.array(np.ones((64, 64), np.float16)) for _ in range(2)]
        text = fragments(**how, by=by.replace("numbers of 8 bits", "ld"))
        if by == "numbers of 8 bits":
            if how.get("b") != "nk":
                continue  # ldmatrix moves two bytes together: two k
            text = (
                re.sub("m16n8k16.row.col.f32.f16.f16.f32", "m16n8k32.row.col.s32.s8.s8.s32", text)
                .replace(".f32 %d<4>", ".b32 %d<4>")
                .replace("0f00000000", "0")
            )
        ran = gpu.launch(text, block=32, args=[*arrays, gpu.array(np.zeros(128, np.float32))], progress=False)
        told = [f for f in ran.remarks if f.code == "R508"]
        assert ran.ok, ran.text()
        assert len(told) == bool(said), (by, ran.text())
        assert all(said in f.message and "ldmatrix" in ran.ptx.splitlines()[f.line - 1] for f in told), ran.text()


@pytest.mark.parametrize(
    ("step", "ctas", "said"),
    [
        (16, 4, ""),
        (16, 3, "no mma.sync multiplies k = 48 to 63 of A and B"),
        (8, 4, "k = 8 to 31 more often than others, and k = 40 to 63 never"),
        (0, 4, ""),
        (32, 2, ""),
    ],
)
def test_slices_of_k_that_overlap_and_leave_others_out_are_a_remark(step: int, ctas: int, said: str):
    """CTAs that multiply the same k, or leave some out, may be meant: a benchmark, a sum with a part of K. Where the rest
    holds zeros, as padding does, there is no remark.
    """
    gpu = Gpu("sm_80")
    arrays = [gpu.array(np.ones((64, 64), np.float16)) for _ in range(2)]
    text = fragments(masks=(0, 0), k="%k").replace("mov.u32 %k, %ctaid.x;", f"mov.u32 %k, %ctaid.x; mul.lo.u32 %k, %k, {step};")
    for workers in (1, 2):
        ran = gpu.launch(text, block=32, grid=ctas, args=[*arrays, gpu.array(np.zeros(128, np.float32))], progress=False, workers=workers)
        told = [f.message for f in ran.remarks if f.code == "R508"]
        assert len(told) == bool(said), ran.text()
        assert all(said in one for one in told)
    padded = [np.ones((64, 64), np.float16) for _ in range(2)]
    padded[0][:, 16 * ctas :] = 0
    if step == 16:
        ran = gpu.launch(text, block=32, grid=ctas, args=[*map(gpu.array, padded), gpu.array(np.zeros(128, np.float32))], progress=False)
        assert not ran.remarks, ran.text()


def test_each_launch_is_followed_up_to_a_bound_unless_it_does_what_an_earlier_one_did(monkeypatch: pytest.MonkeyPatch):
    """Both are told as not checked. A launch with a remark is followed each time."""
    cut, same = (
        "not checked: the sources of A and B after the first 16,384 mma.sync",
        "not checked: the sources of A and B of mma.sync once more",
    )
    gpu = Gpu("sm_80")
    arrays = [gpu.array(np.ones((64, 64), np.float16)) for _ in range(2)]

    def launched(text: str, size: int) -> tuple[list[str], set[str]]:
        ran = gpu.launch(text, block=32, grid=4, args=[*arrays, gpu.array(np.zeros(size, np.float32))], progress=False)
        return [f.code for f in ran.remarks], {words for words in (cut, same) if words in str(ran.judged)}

    right, wrong = (fragments(masks=(0, 0), trans=trans) for trans in ((False, True), (False, False)))
    assert [launched(right, size) for size in (128, 128, 256, 256)] == [([], set()), ([], {same})] * 2
    assert [launched(wrong, 128) for _ in range(2)] == [(["R508"], set())] * 2
    monkeypatch.setattr("smemsim.run.followed.MOST_PRODUCTS", 300)  # as many as one launch has
    assert [launched(right, size) for size in (512, 1024)] == [([], set())] * 2
    monkeypatch.setattr("smemsim.run.followed.MOST_PRODUCTS", 100)
    assert [launched(right, size) for size in (2048, 4096)] == [([], {cut})] * 2
