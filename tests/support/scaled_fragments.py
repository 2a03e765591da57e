"""Block-scaled and sparse products of mma.sync whose warps load their operands and scale factors, and what may be wrong
with them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from smemsim import Gpu, Run

__all__ = ["SHUFFLED", "FragmentGemm", "sparse_fragments"]

KINDS = {  # scales of a row for an instruction, K, element and scale types
    "mxf8f6f4": (1, 32, "e4m3", "ue8m0"), "mxf4": (2, 64, "e2m1", "ue8m0"), "mxf4nvf4": (4, 64, "e2m1", "ue4m3"),
}  # fmt: skip
BYTES = 32  # of a row for an instruction, of every kind
SHUFFLED = "shl.b32 %s1, %g, 1; and.b32 %s2, %lane, 1; add.u32 %s1, %s1, %s2;"


@dataclasses.dataclass(frozen=True)
class FragmentGemm:
    """D (16 m x 8 n) = A B^T, a warp for each CTA of a grid (m, n), in `steps` instructions. Each function says what a
    right kernel does.

    `rows` makes of the group %g and the %lane the row %s1 of the scale factors that a lane loads, by side.
    """

    kind: str = "mxf8f6f4"
    steps: int = 8
    grid: tuple[int, int] = (1, 1)
    by: str = "direct"  # how operands come: "direct", "ldmatrix" of what threads have stored, or "cp.async"
    rows: dict[str, str] = dataclasses.field(default_factory=dict)
    word: Callable[[str, int], int] | None = None  # (side, step): the word of a row's scale factors
    byte: Callable[[str, int], int] | None = None  # (side, step): byte-id
    tile: Callable[[str], int] = lambda side: 1  # rows of scale factors go on by so many tiles with the CTA
    of: Callable[[str], str] = str  # whose scale factors a side has
    threads: tuple[int, int] = (0, 0)  # thread-id of A and of B
    after: dict[str, str] = dataclasses.field(default_factory=dict)  # what happens to the word %w of a side
    order: Callable[[np.ndarray], np.ndarray] = np.asarray  # of the scale factors in memory
    left_out: int = 0  # steps of K that rows of A and B have beyond those of the launch
    # bytes from a row of scale factors to the next one, and from a word to the next one
    strides: tuple[int, int] | None = None

    @property
    def factors(self) -> int:
        return KINDS[self.kind][0]

    def _scales(self, side: str, step: int) -> tuple[str, int]:
        """The load of a register of scale factors, and byte-id."""
        each = 4 // self.factors  # steps of one word
        word = step // each if self.word is None else self.word(side, step)
        byte = step % each * self.factors if self.byte is None else self.byte(side, step)
        own = "and.b32 %s2, %lane, 1; shl.b32 %s2, %s2, 3; add.u32 %s1, %g, %s2;" if side == "a" else "mov.u32 %s1, %g;"
        of_row, of_word = self.strides or (self.pitch, 4)
        ctaid, size, whose = ("%cx", 16, self.of("a")) if side == "a" else ("%cy", 8, self.of("b"))
        return (
            f"""
    {self.rows.get(side, own)} mad.lo.u32 %s1, {ctaid}, {size * self.tile(side)}, %s1; mad.lo.u32 %s1, %s1, {of_row}, {of_word * word};
    cvt.u64.u32 %d1, %s1; add.u64 %d1, %d1, %sf{whose}; ld.global.b32 %w, [%d1]; {self.after.get(side, "")} mov.b32 %w{side}, %w;""",
            byte,
        )

    @property
    def pitch(self) -> int:
        """Bytes of a row of scale factors."""
        return max(4, self.steps * self.factors)

    def _operands(self, step: int) -> str:
        row = BYTES * (self.steps + self.left_out)
        if self.by == "direct":
            text = [
                f"mad.lo.u32 %s1, %cx, 16, %g; mad.lo.u32 %s1, %s1, {row}, {BYTES * step}; mad.lo.u32 %s1, %t, 4, %s1; cvt.u64.u32 %d1, %s1; add.u64 %d1, %d1, %pa;"
            ]
            text += [f"ld.global.b32 %a{n}, [%d1+{n % 2 * 8 * row + n // 2 * 16}];" for n in range(4)]
            text += [
                f"mad.lo.u32 %s1, %cy, 8, %g; mad.lo.u32 %s1, %s1, {row}, {BYTES * step}; mad.lo.u32 %s1, %t, 4, %s1; cvt.u64.u32 %d1, %s1; add.u64 %d1, %d1, %pb;"
            ]
            return " ".join([*text, *(f"ld.global.b32 %b{n}, [%d1+{16 * n}];" for n in range(2))])
        text = [
            "bar.sync 0; shr.u32 %s3, %lane, 1; and.b32 %s4, %lane, 1; shl.b32 %s4, %s4, 4; mov.u32 %s5, smem; mad.lo.u32 %s5, %lane, 16, %s5;"
        ]
        for ctaid, size, pointer, at in (("%cx", 16, "%pa", 0), ("%cy", 8, "%pb", 512)):
            text.append(
                f"mad.lo.u32 %s1, {ctaid}, {size}, %s3; mad.lo.u32 %s1, %s1, {row}, {BYTES * step}; add.u32 %s1, %s1, %s4; cvt.u64.u32 %d1, %s1; add.u64 %d1, %d1, {pointer};"
            )
            lanes = "" if size == 16 else "@%few "
            if self.by == "cp.async":
                text.append(f"{lanes}cp.async.cg.shared.global [%s5+{at}], [%d1], 16;")
            else:
                text.append(
                    f"{lanes}ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%d1]; {lanes}st.shared.v4.b32 [%s5+{at}], {{%v0, %v1, %v2, %v3}};"
                )
        wait = "cp.async.wait_all; " if self.by == "cp.async" else ""
        text.append(f"""{wait}bar.sync 0; and.b32 %s1, %lane, 15; shr.u32 %s2, %lane, 4; shl.b32 %s2, %s2, 4; mad.lo.u32 %s1, %s1, 32, %s2; mov.u32 %s5, smem; add.u32 %s1, %s1, %s5;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%a0, %a1, %a2, %a3}}, [%s1];
    and.b32 %s1, %lane, 7; shr.u32 %s2, %lane, 3; and.b32 %s2, %s2, 1; shl.b32 %s2, %s2, 4; mad.lo.u32 %s1, %s1, 32, %s2; add.u32 %s1, %s1, %s5;
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{%b0, %b1}}, [%s1+512];""")
        return "\n".join(text)

    @property
    def ptx(self) -> str:
        """The kernel: parameters are A, B, the scale factors of both, and D (CTAs, 4, 32)."""
        factors, k, dtype, scale = KINDS[self.kind]
        name = f"mma.sync.aligned.m16n8k{k}.row.col.kind::{self.kind}.block_scale.scale_vec::{factors}X.f32.{dtype}.{dtype}.f32.{scale}"
        body = []
        for step in range(self.steps):
            (load_a, byte_a), (load_b, byte_b) = (self._scales(side, step) for side in "ab")
            body.append(f"""{self._operands(step)}{load_a}{load_b}
    {name} {{%c0, %c1, %c2, %c3}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{%c0, %c1, %c2, %c3}}, {{%wa}}, {{{byte_a}, {self.threads[0]}}}, {{%wb}}, {{{byte_b}, {self.threads[1]}}};""")
        return f""".version 9.0
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 sfa, .param .u64 sfb, .param .u64 out) {{
    .shared .align 16 .b8 smem[768]; .reg .pred %few; .reg .b32 %lane, %g, %t, %cx, %cy, %w, %wa, %wb, %s<8>, %a<4>, %b<2>, %v<4>; .reg .f32 %c<4>; .reg .b64 %d<4>, %pa, %pb, %sfa, %sfb;
    ld.param.u64 %pa, [a]; ld.param.u64 %pb, [b]; ld.param.u64 %sfa, [sfa]; ld.param.u64 %sfb, [sfb]; ld.param.u64 %d2, [out];
    mov.u32 %lane, %tid.x; shr.u32 %g, %lane, 2; and.b32 %t, %lane, 3; mov.u32 %cx, %ctaid.x; mov.u32 %cy, %ctaid.y; setp.lt.u32 %few, %lane, 16;
    mov.f32 %c0, 0f00000000; mov.f32 %c1, %c0; mov.f32 %c2, %c0; mov.f32 %c3, %c0;
    {"".join(body)}
    mad.lo.u32 %s1, %cx, {self.grid[1]}, %cy; shl.b32 %s1, %s1, 7; add.u32 %s1, %s1, %lane; mul.wide.u32 %d1, %s1, 4; add.u64 %d2, %d2, %d1;
    st.global.f32 [%d2], %c0; st.global.f32 [%d2+128], %c1; st.global.f32 [%d2+256], %c2; st.global.f32 [%d2+384], %c3; ret; }}"""

    def run(self, *, same: bool = False, **options: object) -> tuple[Run, int]:
        """The launch, and how many elements of D are wrong; with `same` scale factors all are one."""
        rng = np.random.default_rng(3)
        factors, k, _, scale = KINDS[self.kind]
        gpu, sizes = Gpu("sm_120a"), {"a": 16 * self.grid[0], "b": 8 * self.grid[1]}
        one, step = (127, 1) if scale == "ue8m0" else (0x38, 8)
        # e4m3, e2m1
        codes, values = ((0x30, 0x38, 0x40), (0.5, 1.0, 2.0)) if k == BYTES else ((1, 2, 4), (0.5, 1.0, 2.0))
        held, wanted = {}, {}
        for side, rows in sizes.items():
            which = rng.integers(0, 3, (rows, k * (self.steps + self.left_out)))
            raw = np.take(codes, which).astype(np.uint8)
            held[side] = gpu.array(raw if k == BYTES else raw[:, ::2] | raw[:, 1::2] << 4)
            exponents = np.zeros((rows, factors * self.steps), int) if same else rng.integers(-1, 3, (rows, factors * self.steps))
            scales = np.full((rows, self.pitch), one, np.uint8)
            scales[:, : exponents.shape[1]] = one + step * exponents
            held["sf" + side] = gpu.array(np.ascontiguousarray(self.order(scales)))
            wanted[side] = np.take(values, which)[:, : k * self.steps] * (2.0**exponents).repeat(k // factors, axis=1)
        out = gpu.zeros((*self.grid, 4, 32), np.float32)
        run = gpu.launch(
            self.ptx, "k", args=[held["a"], held["b"], held["sfa"], held["sfb"], out], block=32, grid=self.grid, progress=False, **options
        )
        d, lane = out.numpy(), np.arange(32)
        found = np.zeros((sizes["a"], sizes["b"]))
        for m in range(self.grid[0]):
            for n in range(self.grid[1]):
                for e in range(4):
                    found[16 * m + lane // 4 + e // 2 * 8, 8 * n + lane % 4 * 2 + e % 2] = d[m, n, e]
        return run, int((found != wanted["a"] @ wanted["b"].T).sum())


def sparse_fragments(
    step_of: Callable[[int], int],
    row: str = "",
    *,
    steps: int = 4,
    rows: int = 16,
    more: int = 0,
    held: int = 0,
    strides: tuple[int, int] | None = None,
    order: Callable[[np.ndarray], np.ndarray] = np.asarray,
    of_a: Callable[[int], int] = lambda step: step,
    form: str = "m16n8k64.row.col.f32.e4m3.e4m3.f32",
) -> Run:
    """D (16 x 8) += A B^T by `steps` mma.sp of e4m3, K = 64 each; `step_of` says whose metadata an instruction takes,
    `of_a` whose A, and `row` makes of the lane another row %s1 than its own. The array of metadata has `more` rows behind, and metadata
    of `held` steps (default: of all). The kernel takes `strides` from row to row and from step to step, and `order`
    says how the bytes, (rows, 8 held), lie in memory.
    """
    held = held or steps
    of_row, of_step = strides or (8 * held, 8)
    rng = np.random.default_rng(5)
    gpu = Gpu("sm_120a")
    body = []
    for step in range(steps):
        text = [
            f"mad.lo.u32 %s1, %g, {32 * steps}, {32 * of_a(step)}; mad.lo.u32 %s1, %t, 4, %s1; cvt.u64.u32 %d1, %s1; add.u64 %d1, %d1, %pa;"
        ]
        text += [f"ld.global.b32 %a{n}, [%d1+{n % 2 * 8 * 32 * steps + n // 2 * 16}];" for n in range(4)]
        text += [f"mad.lo.u32 %s1, %g, {64 * steps}, {64 * step}; mad.lo.u32 %s1, %t, 4, %s1; cvt.u64.u32 %d1, %s1; add.u64 %d1, %d1, %pb;"]
        text += [f"ld.global.b32 %b{n}, [%d1+{16 * n}];" for n in range(4)]
        own = "and.b32 %s2, %lane, 1; shl.b32 %s2, %s2, 3; add.u32 %s1, %g, %s2;"
        text.append(f"""{own} {row} shr.u32 %s2, %t, 1; mad.lo.u32 %s1, %s1, {of_row}, {of_step * step_of(step)}; mad.lo.u32 %s1, %s2, 4, %s1;
    cvt.u64.u32 %d1, %s1; add.u64 %d1, %d1, %pe; ld.global.b32 %e, [%d1];
    mma.sp::ordered_metadata.sync.aligned.{form} {{%c0, %c1, %c2, %c3}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1, %b2, %b3}}, {{%c0, %c1, %c2, %c3}}, %e, 0;""")
        body.append("\n".join(text))
    ptx = f""".version 9.0
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 e, .param .u64 out) {{
    .reg .b32 %lane, %g, %t, %e, %s<4>, %a<4>, %b<4>; .reg .f32 %c<4>; .reg .b64 %d<4>, %pa, %pb, %pe;
    ld.param.u64 %pa, [a]; ld.param.u64 %pb, [b]; ld.param.u64 %pe, [e]; ld.param.u64 %d2, [out];
    mov.u32 %lane, %tid.x; shr.u32 %g, %lane, 2; and.b32 %t, %lane, 3; mov.f32 %c0, 0f00000000; mov.f32 %c1, %c0; mov.f32 %c2, %c0; mov.f32 %c3, %c0;
    {"".join(body)}
    mul.wide.u32 %d3, %lane, 4; add.u64 %d2, %d2, %d3; st.global.f32 [%d2], %c0; st.global.f32 [%d2+128], %c1; st.global.f32 [%d2+256], %c2;
    st.global.f32 [%d2+384], %c3; ret; }}"""
    nibbles = rng.choice([0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110], (rows + more, 16 * held)).astype(np.uint8)
    operands = [rng.choice([0x30, 0x38, 0x40], size).astype(np.uint8) for size in ((rows, 32 * steps), (8, 64 * steps))]
    arrays = [gpu.array(np.ascontiguousarray(x)) for x in (*operands, order(nibbles[:, ::2] | nibbles[:, 1::2] << 4))]
    return gpu.launch(ptx, "k", args=[*arrays, gpu.zeros((4, 32), np.float32)], block=32, progress=False)
