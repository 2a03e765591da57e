"""Block-scaled products of tcgen05.mma whose scale factors come by bulk copies in blocks of 128 rows x 4 scales, and
what may be wrong with them.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable

import numpy as np

from ptx_kernels import wait
from smemsim import DeviceArray, Gpu, InstrDescriptor, Run, SmemDescriptor, TensorMap

__all__ = ["IN_A_ROW", "IN_BLOCKS", "STORES", "Gemm", "Halves", "Mapped", "Sparse", "SparseWarpgroup", "Stored", "run"]

BLOCK = 512  # bytes of 128 rows x 4 scale factors
KINDS = {  # scales of a row for an instruction, elements that share one, element type, scale type
    ("mxf8f6f4", "1X"): (1, 32, "e4m3", "ue8m0"), ("mxf4", "2X"): (2, 32, "e2m1", "ue8m0"), ("mxf4nvf4", "2X"): (2, 32, "e2m1", "ue8m0"),
    ("mxf4nvf4", "4X"): (4, 16, "e2m1", "ue4m3"),
}  # fmt: skip
STEPS = 4  # K steps of 32 bytes in a tile


@dataclasses.dataclass(frozen=True)
class Gemm:
    """D (128 m x `n` n) = A B^T of `tiles` tiles of K, 128 bytes of a row each. Each function says what a kernel does
    that is right.
    """

    kind: str = "mxf8f6f4"
    vec: str = "1X"
    n: int = 128
    tiles: int = 1
    grid: tuple[int, int] = (1, 1)
    stages: int = 1
    id: Callable[[str, int, int], int] | None = None  # (side, tile, step): the scale id
    # (side, tile, step): from the first column of the side's scale factors
    column: Callable[[str, int, int], int] | None = None
    block: Callable[[str, int], tuple[int, int, int]] | None = (
        None  # (side, tile): the K block that is loaded, row blocks for each m and for each n
    )
    loads: Callable[[str, int], bool] | None = None  # (side, tile): are its scale factors loaded?
    copies: Callable[[str, int], bool] | None = None
    swapped: bool = False
    apart: int = 64  # columns from A's scale factors to B's
    one_column: bool = False  # are B's scale factors copied to A's columns, and read there?
    source: Callable[[int], int] | None = None  # offset of a copy's descriptor
    stride: int = 128  # between groups of 8 rows of a copy
    stride_b: int = 0  # of a copy of those of B, if not 0
    begin_b: int = 8192  # of B's scale factors in shared memory, after those of A
    pair: bool = False  # is each tile of 2 m x n that of two CTAs?
    # of a CTA; 64 for a pair, whose lanes from 64 on have the second half of N, and of mxf8f6f4 alone
    m: int = 128
    wide: bool = True  # of these: do copies bring two row blocks of B to 64 lanes each?
    steps: int = STEPS  # products of a tile
    parts: int = 1  # loads of a row block
    still: tuple[str, int] = ("", 0)  # the part of a side that is that of the first tile in all tiles
    by_threads: bool = False  # do threads load and store the scale factors of shared memory once more?

    @property
    def row(self) -> tuple[int, int, str, str]:
        return KINDS[self.kind, self.vec]

    @property
    def blocks(self) -> int:
        """Blocks of four scales in a tile of K."""
        return self.row[0]  # four steps

    def rows(self, side: str) -> int:
        return 128 if side == "a" else 256 if self.m == 64 else -(-self.n // 128) * 128

    # ---- the program

    def _id(self, side: str, tile: int, step: int) -> int:
        if self.id is not None:
            return self.id(side, tile, step)
        return step * self.row[0] % 4

    def _column(self, side: str, tile: int, step: int) -> int:
        if self.column is not None:
            return self.column(side, tile, step)
        return step * self.row[0] // 4 * (self.rows(side) // 32)

    def _loads(self, tile: int) -> str:
        """Loads of a tile's scale factors."""
        text = []
        for side, at, parameter in (("a", 0, "%rd3"), ("b", self.begin_b, "%rd4")):
            count = self.rows(side) // 128
            kb, per_m, per_n = (
                (tile * self.blocks, int(side == "a"), int(side == "b") * count) if self.block is None else self.block(side, tile)
            )
            if self.loads is None or self.loads(side, tile):
                for r, part in itertools.product(range(count), range(self.parts)):
                    size = self.blocks * BLOCK // self.parts
                    begin = r * self.tiles * self.blocks + kb * ((side, part) != self.still)
                    text.append(f"""
    mul.lo.u32 %r30, %r3, {per_m * self.tiles * self.blocks * BLOCK}; mad.lo.u32 %r30, %r4, {per_n * self.tiles * self.blocks * BLOCK}, %r30;
    add.u32 %r30, %r30, {begin * BLOCK + part * size}; cvt.u64.u32 %rd10, %r30; add.u64 %rd10, %rd10, {parameter};
    @%p2 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r7], {size};
    @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8+{at + (r * self.parts + part) * size + tile % self.stages * 16384}], [%rd10], {size}, [%r7];""")
        return "\n".join(text)

    def _stored(self, tile: int) -> str:
        """What threads do with them in shared memory."""
        if not self.by_threads:
            return ""
        text = ["shl.b32 %r30, %r1, 2; add.u32 %r30, %r30, %r8;"]
        text += [f"ld.shared.b32 %r31, [%r30+{at}]; st.shared.b32 [%r30+{at}], %r31;" for at in (0, self.begin_b)]
        return "\n".join([*text, "fence.proxy.async.shared::cta; bar.sync 0;"])

    def _scales(self, tile: int) -> str:
        """Loads and copies of a tile's scale factors."""
        loaded = f"@%p2 mbarrier.arrive.shared::cta.b64 _, [%r7]; {wait('%r7', tile % 2, f'LOADED{tile}')}"
        text = [*filter(None, (self._loads(tile), loaded, self._stored(tile)))]
        for side, at, base in (("a", 0, "%r20"), ("b", self.begin_b, "%r20" if self.one_column else "%r21")):
            count, stride = self.rows(side) // 128, (self.stride_b if side == "b" else 0) or self.stride
            if self.copies is not None and not self.copies(side, tile):
                continue
            shape = "64x128b.warpx2::01_23" if self.m == 64 and side == "b" and self.wide else "32x128b.warpx4"
            for r in range(count if self.m == 128 else 1):
                for k in range(self.blocks):
                    word = SmemDescriptor(arch="sm_100a", start_address=0, leading_byte_offset=0, stride_byte_offset=stride).encode()
                    offset = at + (r * self.blocks + k) * BLOCK + tile % self.stages * 16384
                    offset = offset if self.source is None else self.source(offset)
                    text.append(f"""
    add.u32 %r30, %r8, {offset}; shr.u32 %r30, %r30, 4; cvt.u64.u32 %rd10, %r30; or.b64 %rd10, %rd10, {word};
    add.u32 %r31, {base}, {(k * count + r) * 4}; @%p2 tcgen05.cp.cta_group::1.{shape} [%r31], %rd10;""")
        return "\n".join(text)

    def _tile(self, tile: int) -> str:
        _, _, dtype, scale_type = self.row
        text = [f"""
    mov.u32 %r30, {128 * tile}; mul.lo.u32 %r31, %r3, {self.m}; mul.lo.u32 %r32, %r4, {self.n};
    @%p2 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r7], {128 * (self.m + self.n)};
    @%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r5], [%rd1, {{%r30, %r31}}], [%r7];
    @%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r6], [%rd2, {{%r30, %r32}}], [%r7];""",
                self._scales(tile)]  # fmt: skip
        for step in range(self.steps):
            ids = self._id("a", tile, step), self._id("b", tile, step)
            i = InstrDescriptor(
                kind=self.kind,
                m=self.m * (1 + self.pair),
                n=self.n,
                a_type=dtype,
                b_type=dtype,
                d_type="f32",
                scale_type=scale_type,
                a_sf_id=ids[0],
                b_sf_id=ids[1],
            )
            first, second = ("%r21", "%r20") if self.swapped else ("%r20", "%r20" if self.one_column else "%r21")
            adds = "ne" if tile or step else "eq"
            vec = f".scale_vec::{self.vec}"
            text.append(f"""
    add.s64 %rd10, %rd5, {2 * step}; add.s64 %rd11, %rd6, {2 * step}; mov.u32 %r30, {i.word};
    add.u32 %r31, {first}, {self._column("a", tile, step)}; add.u32 %r32, {second}, {self._column("b", tile, step)};
    setp.{adds}.b32 %p4, 0, 1;
    @%p2 tcgen05.mma.cta_group::1.kind::{self.kind}.block_scale{vec} [%r9], %rd10, %rd11, %r30, [%r31], [%r32], %p4;""")
        text.append(f"""
    @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r7+8]; {wait("%r29", tile % 2, f"DONE{tile}")}
    tcgen05.fence::after_thread_sync; bar.sync 0;""")
        return "\n".join(text)

    @property
    def ptx(self) -> str:
        """The kernel: parameters are the maps of A and of B, the scale factors of both, and D."""
        return self._of_pairs(self._of_one) if self.pair else self._of_one

    def _of_pairs(self, text: str) -> str:
        """A kernel whose first CTA multiplies for two: each loads its rows of A and their scale factors, half of B, and
        all scale factors of B.
        """
        meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        text = text.replace("cta_group::1", "cta_group::2").replace("bar.sync 0;", meet)
        for name in ("tcgen05.cp", "tcgen05.mma", "tcgen05.commit"):
            text = text.replace(f"@%p2 {name}", f"@%p5 {name}")
        text = text.replace(
            "setp.eq.u32 %p2, %r1, 0;",
            "setp.eq.u32 %p2, %r1, 0; mov.u32 %r50, %cluster_ctarank; mov.b16 %h1, 3; setp.eq.and.u32 %p5, %r50, 0, %p2;",
        )
        text = text.replace(".reg .pred %p<8>;", ".reg .pred %p<8>; .reg .b16 %h<2>;")
        text = text.replace(f"mul.lo.u32 %r32, %r4, {self.n};", f"mul.lo.u32 %r32, %r50, {self.n // 2};")
        text = text.replace(str(128 * (self.m + self.n)), str(128 * (self.m + self.n // 2)))
        text = text.replace("one.shared::cluster.b64 [%r7+8];", "one.shared::cluster.multicast::cluster.b64 [%r7+8], %h1;")
        if self.m == 64:  # lanes from 64 on have the second half of N
            text = text.replace(
                "shl.b32 %r42, %r3, 7; add.u32 %r42, %r42, %r1;",
                "and.b32 %r43, %r1, 63; mad.lo.u32 %r42, %r3, 64, %r43; shr.u32 %r43, %r1, 6;",
            )
            text = text.replace("mad.lo.u32 %r42, %r4,", f"mad.lo.u32 %r42, %r43, {2 * self.n}, %r42; mad.lo.u32 %r42, %r4,")
            text = text.replace(f"setp.lt.u32 %p3, %r41, {self.n};", f"setp.lt.u32 %p3, %r41, {self.n // 2};")
            text = text.replace(f"add.u32 %r20, %r9, {self.n};", f"add.u32 %r20, %r9, {self.n // 2};")
        return re.sub(r"(bra LOADED\d+;\n)", rf"\1{meet}\n", text)

    @property
    def _of_one(self) -> str:
        operand = SmemDescriptor(arch="sm_100a", start_address=0, stride_byte_offset=1024, swizzle="128B").encode()
        columns = 512
        return f""".version 8.8
    .target sm_100a
    .address_size 64
    .extern .shared .align 1024 .b8 smem[];
    .visible .entry k(.param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128], .param .u64 sfa, .param .u64 sfb, .param .u64 out) {{
    .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<20>;
    mov.b64 %rd1, ma; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, mb; cvta.param.u64 %rd2, %rd2; ld.param.u64 %rd3, [sfa]; ld.param.u64 %rd4, [sfb];
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.ne.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r1, 0; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y;
    mov.u32 %r5, smem; add.u32 %r6, %r5, 16384; add.u32 %r8, %r6, {128 * self.n}; add.u32 %r7, %r8, {16384 * self.stages}; add.u32 %r29, %r7, 8;
    @!%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7+16], {columns};
    @%p2 mbarrier.init.shared::cta.b64 [%r7], 1; @%p2 mbarrier.init.shared::cta.b64 [%r7+8], 1; fence.mbarrier_init.release.cluster;
    tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
    ld.shared.b32 %r9, [%r7+16]; add.u32 %r20, %r9, {self.n}; add.u32 %r21, %r20, {self.apart};
    shr.u32 %r30, %r5, 4; cvt.u64.u32 %rd5, %r30; or.b64 %rd5, %rd5, {operand}; shr.u32 %r30, %r6, 4; cvt.u64.u32 %rd6, %r30; or.b64 %rd6, %rd6, {operand};
    {"".join(self._tile(tile) for tile in range(self.tiles))}
    ld.param.u64 %rd7, [out]; shl.b32 %r40, %r2, 21; add.u32 %r40, %r40, %r9; mov.u32 %r41, 0; shl.b32 %r42, %r3, 7; add.u32 %r42, %r42, %r1;
    mul.lo.u32 %r42, %r42, {self.n * self.grid[1] * 4}; mad.lo.u32 %r42, %r4, {self.n * 4}, %r42; cvt.u64.u32 %rd8, %r42; add.u64 %rd7, %rd7, %rd8;
STORE:
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r44, %r45, %r46, %r47}}, [%r40]; tcgen05.wait::ld.sync.aligned; st.global.v4.b32 [%rd7], {{%r44, %r45, %r46, %r47}};
    add.u32 %r40, %r40, 4; add.u64 %rd7, %rd7, 16; add.u32 %r41, %r41, 4; setp.lt.u32 %p3, %r41, {self.n}; @%p3 bra STORE;
    tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
    @!%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, {columns};
    ret; }}"""

    # ---- its data

    def scales(self, side: str, rng: np.random.Generator, *, spread: int = 4) -> np.ndarray:
        """(rows, scales of a row), the bytes of factors that are powers of two."""
        rows = self.rows(side) * self.grid[side == "b"]
        one, step = (127, 1) if self.row[3] == "ue8m0" else (0x38, 8)
        found: np.ndarray = (one + step * rng.integers(-1, spread - 1, (rows, 4 * self.blocks * self.tiles))).astype(np.uint8)
        return found

    def used(self, side: str, scales: np.ndarray) -> np.ndarray:
        """Those of the rows of A or of B, without padding."""
        tile = self.m if side == "a" else self.n
        own, each = (tile // 2, 128) if side == "b" and self.m == 64 else (tile, self.rows(side))
        return np.concatenate([scales[at : at + own] for at in range(0, len(scales), each)])

    def packed(self, scales: np.ndarray) -> np.ndarray:
        """Those in blocks of 128 rows x 4."""
        rows, count = scales.shape
        return np.ascontiguousarray(scales.reshape(rows // 128, 4, 32, count // 4, 4).transpose(0, 3, 2, 1, 4))

    def given(self, packed: DeviceArray) -> DeviceArray | TensorMap:
        """The kernel's parameter for an array of scale factors."""
        return packed

    def numbers(self, scales: np.ndarray) -> np.ndarray:
        found: np.ndarray = np.exp2(scales.astype(int) - 127) if self.row[3] == "ue8m0" else np.exp2((scales.astype(int) >> 3) - 7)
        return found


def run(gemm: Gemm, *, spread: int = 4, change: Callable[..., None] | None = None, blank: bool = False, **more: object) -> tuple[Run, int]:
    """What a launch with random numbers finds, and how many elements of D are wrong."""
    rng, gpu = np.random.default_rng(1), Gpu("sm_100a")
    narrow = gemm.row[2] == "e2m1"
    codes = np.array([0, 1, 2, 4, 10, 12], np.uint8) if narrow else np.array([0x38, 0x40, 0xB8, 0x30, 0, 0xC0], np.uint8)
    values = np.array([0, 0.5, 1, 2, -1, -2]) if narrow else np.array([1, 2, -1, 0.5, 0, -2])
    maps, real, placed = [], [], []
    for side, tile in (("a", gemm.m), ("b", gemm.n)):
        rows, k = tile * gemm.grid[side == "b"], 128 * gemm.tiles * (2 if narrow else 1)
        pick = rng.integers(0, len(codes), (rows, k))
        raw = codes[pick]
        raw = raw[:, ::2] | raw[:, 1::2] << 4 if narrow else raw
        array = gpu.array(np.ascontiguousarray(raw))
        placed.append(array)
        maps.append(
            TensorMap.tiled(
                data_type="u8",
                global_address=array.address,
                global_dim=raw.shape[::-1],
                global_strides=raw.shape[1:],
                box_dim=(128, tile // 2 if gemm.pair and side == "b" else tile),
                swizzle="128B",
            )
        )
        scales = gemm.scales(side, rng, spread=spread)
        if change is not None:
            change(side, scales)
        packed = gemm.packed(scales)
        arrays = gpu.array(packed)
        placed.append(arrays)
        used = gemm.used(side, scales)
        numbers = values[pick] * np.repeat(gemm.numbers(used), gemm.row[1], axis=1)
        real.append((numbers[:, : k * gemm.steps // STEPS], gemm.given(arrays)))
    (a, sfa), (b, sfb) = real
    out = gpu.array(np.zeros((a.shape[0], b.shape[0]), np.float32))
    done = gpu.launch(
        gemm.ptx,
        "k",
        grid=gemm.grid,
        block=128,
        cluster=2 if gemm.pair else 1,
        shared_bytes=16384 + 128 * gemm.n + 16384 * gemm.stages + 32,
        args=[*maps, sfa, sfb, out],
        progress=False,
        **more,
    )
    return done, int((out.numpy() != a @ b.T).sum())


@dataclasses.dataclass(frozen=True)
class Mapped(Gemm):
    """Tensor loads bring the scale factors: "lines" of 16 bytes, 32 for a block; "boxes" of whole blocks; "words" of
    four factors, those of 128 rows, which threads then store in blocks; "shuffled" words, whose order is that of blocks; a
    "matrix" of rows of 32 factors, of which 16 of 32 rows come as if they were a block.
    """

    form: str = "lines"
    transposed: bool = True  # do threads store words in blocks?

    @property
    def _map(self) -> str:
        return "words" if self.form == "shuffled" else self.form

    @property
    def along(self) -> int:
        """Blocks of a row of blocks."""
        return self.tiles * self.blocks

    def packed(self, scales: np.ndarray) -> np.ndarray:
        if self.form == "shuffled":
            return np.ascontiguousarray(super().packed(scales).swapaxes(0, 1))
        if self.form == "matrix":
            return scales
        if self.form != "words":
            return super().packed(scales)
        return np.ascontiguousarray(scales.reshape(len(scales), -1, 4).swapaxes(0, 1))

    def given(self, packed: DeviceArray) -> TensorMap:
        kind, dims, strides, box = {
            "lines": ("u8", (16, packed.nbytes // 16), (16,), (16, 32)),
            "boxes": ("u16", (256, self.along, packed.nbytes // BLOCK // self.along), (BLOCK, BLOCK * self.along), (256, self.blocks, 1)),
            "matrix": ("u8", (32, packed.nbytes // 32), (32,), (16, 32)),
            "words": ("u32", (packed.nbytes // 4 // self.along, self.along), (packed.nbytes // self.along,), (128, 1)),
        }[self._map]
        return TensorMap.tiled(data_type=kind, global_address=packed.address, global_dim=dims, global_strides=strides, box_dim=box)

    def _loads(self, tile: int) -> str:
        text = []
        for side, at, map_ in (("a", 0, "%rd3"), ("b", self.begin_b, "%rd4")):
            count = self.rows(side) // 128
            kb, per_m, per_n = (
                (tile * self.blocks, int(side == "a"), int(side == "b") * count) if self.block is None else self.block(side, tile)
            )
            if self.loads is not None and not self.loads(side, tile):
                continue
            for r, k in itertools.product(range(count), range(1 if self.form == "boxes" else self.blocks)):
                size = BLOCK * (self.blocks if self.form == "boxes" else 1)
                y = {"lines": (32 * self.along, 32 * (kb + k)), "boxes": (1, 0), "words": (128, 0), "matrix": (128, 32 * k)}[self._map]
                to = f"[%r8+{at + (r * self.blocks + k) * BLOCK + tile % self.stages * 16384}]"
                where = {"lines": "%r31, %r30", "boxes": "%r31, %r32, %r30", "words": "%r30, %r32", "matrix": "%r32, %r30"}[self._map]
                text.append(f"""
    mul.lo.u32 %r30, %r3, {per_m}; mad.lo.u32 %r30, %r4, {per_n}, %r30; add.u32 %r30, %r30, {r}; mul.lo.u32 %r30, %r30, {y[0]}; add.u32 %r30, %r30, {y[1]};
    mov.u32 %r31, 0; mov.u32 %r32, {4 * kb if self.form == "matrix" else kb + k}; @%p2 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r7], {size};
    @%p2 cp.async.bulk.tensor.{3 if self.form == "boxes" else 2}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes {to}, [{map_}, {{{where}}}], [%r7];""")
        return "\n".join(text)

    def _stored(self, tile: int) -> str:
        if self.form != "words" or not self.transposed:
            return super()._stored(tile)
        at = [b + n * BLOCK for side, b in (("a", 0), ("b", self.begin_b)) for n in range(self.rows(side) // 128 * self.blocks)]
        at = [b + tile % self.stages * 16384 for b in at]
        text = [
            "shl.b32 %r30, %r1, 2; add.u32 %r30, %r30, %r8; and.b32 %r31, %r1, 31; shl.b32 %r31, %r31, 4; shr.u32 %r32, %r1, 5; shl.b32 %r32, %r32, 2;"
        ]
        text.append("add.u32 %r31, %r31, %r32; add.u32 %r31, %r31, %r8;")
        text += [f"ld.shared.b32 %r33, [%r30+{b}]; bar.sync 0; st.shared.b32 [%r31+{b}], %r33;" for b in at]
        return "\n".join([*text, "fence.proxy.async.shared::cta; bar.sync 0;"])

    @property
    def ptx(self) -> str:
        text = super().ptx.replace(".param .u64 sfa, .param .u64 sfb", ".param .align 64 .b8 sfa[128], .param .align 64 .b8 sfb[128]")
        for n, name in ((3, "sfa"), (4, "sfb")):
            text = text.replace(f"ld.param.u64 %rd{n}, [{name}];", f"mov.b64 %rd{n}, {name}; cvta.param.u64 %rd{n}, %rd{n};")
        return text


@dataclasses.dataclass(frozen=True)
class Halves(Gemm):
    """Tiles of 64 of N, of which two have their scale factors in one block of 128 rows: every second one begins two
    columns further.
    """

    n: int = 64
    grid: tuple[int, int] = (1, 2)
    by: int = 2

    def _loads(self, tile: int) -> str:
        return super()._loads(tile).replace("mad.lo.u32 %r30, %r4,", "shr.u32 %r31, %r4, 1; mad.lo.u32 %r30, %r31,")

    def scales(self, side: str, rng: np.random.Generator, *, spread: int = 4) -> np.ndarray:
        found = super().scales(side, rng, spread=spread)
        return found if side == "a" else found[: len(found) // 2]

    def used(self, side: str, scales: np.ndarray) -> np.ndarray:
        return scales

    @property
    def ptx(self) -> str:
        return super().ptx.replace(
            "add.u32 %r32, %r21, ", f"and.b32 %r32, %r4, 1; mad.lo.u32 %r32, %r32, {self.by}, %r21; add.u32 %r32, %r32, "
        )


STORES = {  # of the four scale factors of row %r30 at [%rd10] to block [%r31]: what a thread does; {at} is where a row has its place
    "words": "ld.global.b32 %r32, [%rd10]; {at} st.shared.b32 [%r31], %r32;",
    "generic": "ld.global.nc.u32 %r32, [%rd10]; {at} cvt.u64.u32 %rd11, %r31; cvta.shared.u64 %rd11, %rd11; st.u32 [%rd11], %r32;",
    "bytes": "{at}" + "".join(f"ld.global.u8 %h0, [%rd10+{n}]; st.shared.u8 [%r31+{n}], %h0;" for n in range(4)),
    "halves": "ld.global.v2.u16 {{%h0, %h1}}, [%rd10]; mov.b32 %r32, {{%h0, %h1}}; {at} st.shared.u32 [%r31], %r32;",
    "shifts": "mov.b32 %r32, 0; " + "".join(f"ld.global.u8 %r33, [%rd10+{n}]; shl.b32 %r33, %r33, {8 * n}; or.b32 %r32, %r32, %r33;" for n in range(4))
    + "{at} st.shared.b32 [%r31], %r32;",
    "permuted": "ld.global.b32 %r32, [%rd10]; prmt.b32 %r33, %r32, 0, 0x0123; prmt.b32 %r32, 0, %r33, 0x4567; {at} st.shared.b32 [%r31], %r32;",
    "fields": "ld.global.b32 %r32, [%rd10]; bfe.u32 %r33, %r32, 8, 16; and.b32 %r32, %r32, 0xff0000ff; bfi.b32 %r32, %r33, %r32, 8, 16; {at} st.shared.b32 [%r31], %r32;",
    "cp.async": "{at} cp.async.ca.shared.global [%r31], [%rd10], 4; cp.async.wait_all;",
    "tensor": "",
    "repeated": "ld.global.u8 %r32, [%rd10]; mul.lo.u32 %r32, %r32, 0x01010101; {at} st.shared.b32 [%r31], %r32;",
    "computed": "ld.global.b32 %r32, [%rd10]; sub.u32 %r32, %r32, 0x01010101; add.u32 %r32, %r32, 0x01010101; {at} st.shared.b32 [%r31], %r32;",
    "looked up": "ld.global.b32 %r32, [%rd10]; and.b32 %r32, %r32, 7; mul.wide.u32 %rd11, %r32, 4; add.u64 %rd11, %rd11, %rd3; ld.global.b32 %r32, [%rd11]; {at} st.shared.b32 [%r31], %r32;",
    "backwards": "{at}" + "".join(f"ld.global.u8 %h0, [%rd10+{n}]; st.shared.u8 [%r31+{3 - n}], %h0;" for n in range(4)),
}  # fmt: skip
IN_BLOCKS = "and.b32 %r33, %r30, 31; shl.b32 %r33, %r33, 4; add.u32 %r31, %r31, %r33; shr.u32 %r33, %r30, 5; shl.b32 %r33, %r33, 2; add.u32 %r31, %r31, %r33;"
IN_A_ROW = "shl.b32 %r33, %r30, 2; add.u32 %r31, %r31, %r33;"


@dataclasses.dataclass(frozen=True)
class Stored(Gemm):
    """A product of mxf8f6f4 whose scale factors threads load, a row for each, from a matrix of rows x scales, and store
    in blocks; of side `wrong` as `by`, `at`, `turn` and `tile` say, of the other one as words. `turn` changes the
    number of a row, %r30, before it is loaded; `tile` says which K is loaded.
    """

    tiles: int = 2
    wrong: str = "ab"
    by: str | tuple[str, ...] = "words"  # for each tile, if not one for all
    at: str = IN_BLOCKS
    turn: str = ""
    tile: Callable[[int], int] = int
    only: str = ""  # a guard of what is stored
    is_shared: bool = False  # do both sides have the factors of A?

    def packed(self, scales: np.ndarray) -> np.ndarray:
        return scales

    def _address(self, side: str, tile: int) -> str:
        row, tile = (self.turn, self.tile(tile)) if side in self.wrong else ("", tile)
        at, cta = ("%rd3", "%r3") if side == "a" or self.is_shared else ("%rd4", "%r4")
        return (
            f"{row} shl.b32 %r33, {cta}, 7; add.u32 %r33, %r33, %r30; mul.lo.u32 %r33, %r33, {4 * self.tiles}; cvt.u64.u32 %rd10, %r33; add.u64 %rd10, %rd10, {at}; "
            f"add.u64 %rd10, %rd10, {4 * tile};"
        )

    def _scales(self, tile: int) -> str:
        text = []
        for side, at, column in (("a", 0, "%r20"), ("b", 8192, "%r21")):
            own = self.by if isinstance(self.by, str) else self.by[tile]
            by, place = (own, self.at) if side in self.wrong else ("words", IN_BLOCKS)
            if by == "tensor":
                for n in range(4):
                    row = (
                        f"shl.b32 %r30, %r1, 2; and.b32 %r30, %r30, 124; add.u32 %r30, %r30, {n};"
                        if place == IN_A_ROW
                        else f"and.b32 %r30, %r1, 31; add.u32 %r30, %r30, {32 * n};"
                    )
                    text.append(f"{row} {self._address(side, tile)} ld.global.b32 %r{44 + n}, [%rd10];")
                text.append(
                    f"shl.b32 %r31, %r2, 21; add.u32 %r31, %r31, {column}; tcgen05.st.sync.aligned.32x32b.x4.b32 [%r31], {{%r44, %r45, %r46, %r47}};"
                )
                text.append("tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;")
                continue
            store = STORES[by].format(at=place)
            only = f"{self.only} @!%p5 bra SKIP{side}{tile};" if self.only and side in self.wrong else ""
            text.append(
                f"mov.u32 %r30, %r1; add.u32 %r31, %r8, {at}; {only} {self._address(side, tile)} mov.u32 %r30, %r1; {store} SKIP{side}{tile}:"
            )
        text.append("fence.proxy.async.shared::cta; bar.sync 0; tcgen05.fence::after_thread_sync;")
        text.append(f"@%p2 mbarrier.arrive.shared::cta.b64 _, [%r7]; {wait('%r7', tile % 2, f'LOADED{tile}')}")
        for side, at, column in (("a", 0, "%r20"), ("b", 8192, "%r21")):
            if side not in self.wrong or self.by != "tensor":
                word = SmemDescriptor(arch="sm_100a", start_address=0, leading_byte_offset=0, stride_byte_offset=128).encode()
                text.append(f"""
    add.u32 %r30, %r8, {at}; shr.u32 %r30, %r30, 4; cvt.u64.u32 %rd10, %r30; or.b64 %rd10, %rd10, {word};
    @%p2 tcgen05.cp.cta_group::1.32x128b.warpx4 [{column}], %rd10;""")
        return "\n".join(text)

    @property
    def ptx(self) -> str:
        return super().ptx.replace(".reg .pred %p<8>;", ".reg .pred %p<8>; .reg .b16 %h<2>;", 1)


@dataclasses.dataclass(frozen=True)
class Sparse:
    """D (128 x 32) = A B^T of e4m3, of each four of A's k two are stored: two products of 64 k, whose metadata
    tcgen05.cp brings: 16 bytes of a row, 8 for each.

    `columns` are those of the metadata, from the first one; `block` the rows of metadata that are loaded."""

    columns: tuple[int, int] = (0, 2)
    grid: int = 1
    block: int | None = None
    same: bool = False  # is the metadata that of one pattern?

    @property
    def ptx(self) -> str:
        """The kernel: parameters are the maps of A and of B, the metadata, and D."""
        a = SmemDescriptor(arch="sm_100a", start_address=0, stride_byte_offset=512, swizzle="64B").encode()
        b = SmemDescriptor(arch="sm_100a", start_address=0, stride_byte_offset=1024, swizzle="128B").encode()
        rows = SmemDescriptor(arch="sm_100a", start_address=0, leading_byte_offset=0, stride_byte_offset=128).encode()
        i = InstrDescriptor(kind="f8f6f4", m=128, n=32, a_type="e4m3", b_type="e4m3", d_type="f32", sparsity=True)
        products = "\n".join(
            f"""add.s64 %rd10, %rd5, {2 * n}; add.s64 %rd11, %rd6, {4 * n}; add.u32 %r31, %r20, {column}; setp.ne.b32 %p4, 0, {n};
    @%p2 tcgen05.mma.sp.cta_group::1.kind::f8f6f4 [%r9], %rd10, %rd11, [%r31], %r30, %p4;"""
            for n, column in enumerate(self.columns)
        )
        block = "%r3" if self.block is None else str(self.block)
        return f""".version 8.8
    .target sm_100a
    .address_size 64
    .extern .shared .align 1024 .b8 smem[];
    .visible .entry k(.param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128], .param .u64 metadata, .param .u64 out) {{
    .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<20>;
    mov.b64 %rd1, ma; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, mb; cvta.param.u64 %rd2, %rd2; ld.param.u64 %rd3, [metadata];
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.ne.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r1, 0; mov.u32 %r3, %ctaid.x;
    mov.u32 %r5, smem; add.u32 %r6, %r5, 8192; add.u32 %r8, %r6, 4096; add.u32 %r7, %r8, 2048; add.u32 %r29, %r7, 8;
    @!%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7+16], 64;
    @%p2 mbarrier.init.shared::cta.b64 [%r7], 1; @%p2 mbarrier.init.shared::cta.b64 [%r7+8], 1; fence.mbarrier_init.release.cluster;
    tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
    ld.shared.b32 %r9, [%r7+16]; add.u32 %r20, %r9, 32; mov.u32 %r30, 0; shl.b32 %r31, %r3, 7; mul.wide.u32 %rd10, {block}, 2048; add.u64 %rd3, %rd3, %rd10;
    shr.u32 %r32, %r5, 4; cvt.u64.u32 %rd5, %r32; or.b64 %rd5, %rd5, {a}; shr.u32 %r32, %r6, 4; cvt.u64.u32 %rd6, %r32; or.b64 %rd6, %rd6, {b};
    @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], {8192 + 4096 + 2048};
    @%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r5], [%rd1, {{%r30, %r31}}], [%r7];
    @%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r6], [%rd2, {{%r30, %r30}}], [%r7];
    @%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r8], [%rd3], 2048, [%r7]; {wait("%r7", 0, "LOADED")}
    shr.u32 %r32, %r8, 4; cvt.u64.u32 %rd7, %r32; or.b64 %rd7, %rd7, {rows}; @%p2 tcgen05.cp.cta_group::1.128x128b [%r20], %rd7; mov.u32 %r30, {i.word};
    {products}
    @%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r29]; {wait("%r29", 0, "DONE")} tcgen05.fence::after_thread_sync;
    ld.param.u64 %rd4, [out]; shl.b32 %r40, %r2, 21; add.u32 %r40, %r40, %r9; shl.b32 %r42, %r3, 7; add.u32 %r42, %r42, %r1; mul.wide.u32 %rd8, %r42, 128;
    add.u64 %rd4, %rd4, %rd8; mov.u32 %r41, 0;
STORE:
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r44, %r45, %r46, %r47}}, [%r40]; tcgen05.wait::ld.sync.aligned; st.global.v4.b32 [%rd4], {{%r44, %r45, %r46, %r47}};
    add.u32 %r40, %r40, 4; add.u64 %rd4, %rd4, 16; add.u32 %r41, %r41, 4; setp.lt.u32 %p3, %r41, 32; @%p3 bra STORE;
    tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; @!%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 64;
    ret; }}"""

    def run(self) -> tuple[Run, int]:
        """What a launch with random numbers finds, and how many elements of D are wrong."""
        rng, gpu, rows = np.random.default_rng(1), Gpu("sm_100a"), 128 * self.grid
        codes, values = np.array([0x38, 0x40, 0xB8, 0x30], np.uint8), np.array([1, 2, -1, 0.5])
        pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
        pick = np.zeros((rows, 32), int) if self.same else rng.integers(0, 6, (rows, 32))  # of each four k
        of_a, of_b = rng.integers(0, 4, (rows, 64)), rng.integers(0, 4, (32, 128))
        a = np.zeros((rows, 32, 4))
        np.put_along_axis(a, pairs[pick], values[of_a].reshape(rows, 32, 2), axis=2)
        nibbles = pairs[pick][..., 0] | pairs[pick][..., 1] << 2
        metadata = gpu.array((nibbles[:, ::2] | nibbles[:, 1::2] << 4).astype(np.uint8))
        maps = []
        for raw, box, swizzle in ((codes[of_a], (64, 128), "64B"), (codes[of_b], (128, 32), "128B")):
            array = gpu.array(np.ascontiguousarray(raw))
            maps.append(TensorMap.tiled(data_type="u8", global_address=array.address, global_dim=raw.shape[::-1], global_strides=raw.shape[1:], box_dim=box, swizzle=swizzle))  # fmt: skip
        out = gpu.array(np.zeros((rows, 32), np.float32))
        done = gpu.launch(
            self.ptx, "k", grid=self.grid, block=128, shared_bytes=8192 + 4096 + 2048 + 32, args=[*maps, metadata, out], progress=False
        )
        return done, int((out.numpy() != a.reshape(rows, 128) @ values[of_b].T).sum())


@dataclasses.dataclass(frozen=True)
class SparseWarpgroup:
    """D (64 x 16 a CTA) = A B^T of f16, of each four of A's k two are stored: four wgmma.mma_async.sp of 32 k. A
    register has the metadata of two of them: threads 0 and 1 of four that of the first, threads 2 and 3 that of the
    second one.

    `steps` are the register and the selector of each; `thread` is PTX that changes the number of the thread, %r2,
    before it loads metadata.
    """

    steps: tuple[tuple[int, int], ...] = ((0, 0), (0, 1), (1, 0), (1, 1))
    grid: int = 1
    block: int | None = None
    thread: str = ""
    same: bool = False  # is the metadata that of one pattern?
    by_shared: bool = False  # does it come through shared memory?
    packed: bool = True  # in the order of threads; else in halves, which threads put together
    after: str = ""  # what happens to the registers %e0 and %e1

    @property
    def ptx(self) -> str:
        """The kernel: parameters are the maps of A and of B, the metadata, and D."""
        word = SmemDescriptor(arch="sm_90a", start_address=0, stride_byte_offset=1024, swizzle="128B").encode()
        products = "\n".join(
            f"""add.s64 %rd10, %rd5, {2 * n}; add.s64 %rd11, %rd6, {4 * n % 8 + n // 2 * 128};
    wgmma.mma_async.sp.sync.aligned.m64n16k32.f32.f16.f16 {{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}}, %rd10, %rd11, %e{register}, {selector}, %p{3 if n else 4}, 1, 1, 0, 0;"""
            for n, (register, selector) in enumerate(self.steps)
        )
        block = "%r3" if self.block is None else str(self.block)
        load = "ld.global.b32 %e0, [%rd3]; ld.global.b32 %e1, [%rd3+512];"
        if self.by_shared:
            load += "st.shared.v2.b32 [%r21], {%e0, %e1}; bar.sync 0; ld.shared.v2.b32 {%e0, %e1}, [%r21];"
        if not self.packed:
            halves = "ld.global.b16 %h0, [%rd3+{0}]; ld.global.b16 %h1, [%rd3+{1}]; mov.b32 %e{2}, {{%h0, %h1}};"
            load = "".join(halves.format(256 * n, 512 + 256 * n, n) for n in range(2))
        return f""".version 8.8
    .target sm_90a
    .address_size 64
    .extern .shared .align 1024 .b8 smem[];
    .visible .entry k(.param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128], .param .u64 metadata, .param .u64 out) {{
    .reg .pred %p<8>; .reg .b16 %h<2>; .reg .b32 %r<64>; .reg .b32 %e<2>; .reg .b64 %rd<20>; .reg .f32 %f<8>;
    mov.b64 %rd1, ma; cvta.param.u64 %rd1, %rd1; mov.b64 %rd2, mb; cvta.param.u64 %rd2, %rd2; ld.param.u64 %rd3, [metadata];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %r1; setp.eq.u32 %p2, %r1, 0; mov.u32 %r3, %ctaid.x; setp.eq.u32 %p3, 0, 0; setp.ne.u32 %p4, 0, 0;
    mov.u32 %r5, smem; add.u32 %r6, %r5, 8192; add.u32 %r7, %r6, 4096; shl.b32 %r21, %r1, 3; add.u32 %r21, %r21, %r7; add.u32 %r21, %r21, 16;
    @%p2 mbarrier.init.shared::cta.b64 [%r7], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
    mov.u32 %r30, 0; mov.u32 %r33, 64; shl.b32 %r31, %r3, 6; {self.thread} mul.wide.u32 %rd10, {block}, 1024; add.u64 %rd3, %rd3, %rd10; mul.wide.u32 %rd10, %r2, {4 if self.packed else 2};
    add.u64 %rd3, %rd3, %rd10; {load} {self.after} add.u32 %r34, %r6, 2048;
    shr.u32 %r32, %r5, 4; cvt.u64.u32 %rd5, %r32; or.b64 %rd5, %rd5, {word}; shr.u32 %r32, %r6, 4; cvt.u64.u32 %rd6, %r32; or.b64 %rd6, %rd6, {word};
    @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], {8192 + 4096};
    @%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r5], [%rd1, {{%r30, %r31}}], [%r7];
    @%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r6], [%rd2, {{%r30, %r30}}], [%r7];
    @%p2 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r34], [%rd2, {{%r33, %r30}}], [%r7]; {wait("%r7", 0, "LOADED")}
    wgmma.fence.sync.aligned;
    {products}
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    ld.param.u64 %rd4, [out]; shl.b32 %r42, %r3, 7; add.u32 %r42, %r42, %r1; mul.wide.u32 %rd8, %r42, 32; add.u64 %rd4, %rd4, %rd8;
    st.global.v4.f32 [%rd4], {{%f0, %f1, %f2, %f3}}; st.global.v4.f32 [%rd4+16], {{%f4, %f5, %f6, %f7}};
    ret; }}"""

    def run(self) -> tuple[Run, int]:
        """What a launch with random numbers finds, and how many elements of D are wrong."""
        rng, gpu, rows = np.random.default_rng(1), Gpu("sm_90a"), 64 * self.grid
        pairs = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])
        pick = np.full((rows, 32), 3) if self.same else rng.integers(0, 6, (rows, 32))  # of each four k
        of_a, of_b = rng.integers(-3, 4, (rows, 64)).astype(np.float16), rng.integers(-3, 4, (16, 128)).astype(np.float16)
        a = np.zeros((rows, 32, 4))
        np.put_along_axis(a, pairs[pick], of_a.reshape(rows, 32, 2), axis=2)
        nibbles = (pairs[pick][..., 0] | pairs[pick][..., 1] << 2).reshape(rows, 4, 2, 4)  # step, thread of two, group
        halves = (nibbles << 4 * np.arange(4)).sum(axis=-1).astype(np.uint16)
        # CTA, warp, row of 8 (of the other 8: the upper half), register, selector, thread of two
        order = halves.reshape(self.grid, 4, 2, 8, 2, 2, 2)
        words = order[:, :, 0].astype(np.uint32) | order[:, :, 1].astype(np.uint32) << 16
        packed = words.transpose(0, 3, 1, 2, 4, 5)
        raw = np.ascontiguousarray(packed)
        if not self.packed:  # the lower halves of a CTA, then the upper ones
            raw = np.ascontiguousarray(raw.reshape(self.grid, 256).view(np.uint16).reshape(self.grid, 256, 2).swapaxes(1, 2))
        metadata, maps = gpu.array(raw), []
        for tile, box in ((of_a, (64, 64)), (of_b, (64, 16))):
            array = gpu.array(tile)
            maps.append(TensorMap.tiled(data_type="f16", global_address=array.address, global_dim=tile.shape[::-1], global_strides=(2 * tile.shape[1],), box_dim=box, swizzle="128B"))  # fmt: skip
        out = gpu.array(
            np.zeros((self.grid, 4, 8, 4, 2, 2, 2), np.float32)
        )  # CTA, warp, row of 8, thread of four, 8 columns, the other 8 rows, two columns
        done = gpu.launch(
            self.ptx, "k", grid=self.grid, block=128, shared_bytes=8192 + 4096 + 16 + 1024, args=[*maps, metadata, out], progress=False
        )
        d = out.numpy().transpose(0, 1, 5, 2, 4, 3, 6).reshape(rows, 16)
        return done, int((d != a.reshape(rows, 128) @ of_b.astype(float).T).sum())
