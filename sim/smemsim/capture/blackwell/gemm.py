"""The reference kernel (gemm.cu): its source, how its operands are loaded and read, and its suite."""

from __future__ import annotations

import pathlib
import struct
from typing import Any

import numpy as np

from smemsim.capture.bench import KERNELS, RUNNERS, Bench, in_processes, settings
from smemsim.capture.blackwell import pages
from smemsim.capture.blackwell.machine import header, missing
from smemsim.capture.blackwell.pages import compressed, expanded
from smemsim.capture.blackwell.words import ELEMENTS, LAYOUT_CODES, WIDTHS, instruction_descriptor, matrix_descriptor

HERE = pathlib.Path(__file__).resolve().parent
MODULE = "blackwell_gemm"
NAMES = {"f16": "gemm_f16", "tf32": "gemm_tf32", "f8f6f4": "gemm_f8f6f4", "i8": "gemm_i8"}
SHARED = 3 * 32768 + 128
ROWS, TILE_N, STEPS, MOST_BOXES = 128, 128, 4, 16
# tf32 words are copied as FLOAT32: nothing is rounded on the way
TMA_TYPES = {"f16": 6, "bf16": 9, "tf32": 7, "e4m3": 0, "s8": 0}
TMA_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3, "128B_ATOM_32B": 4}


def _hopper() -> str:
    """Warps 0 to 3 of the same loop on wgmma: two m64n128k16 a K step, bf16."""
    d = ", ".join(f"%{i}" for i in range(64))
    out = ", ".join(f'"+f"(d[{i}])' for i in range(64))
    asm = (
        f'asm volatile("{{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{{d}}}, %64, %65, p, '
        f'1, 1, %66, %67; }}" : {out} : "l"(a), "l"(b), "n"(TA), "n"(TB));'
    )
    return f"""
template <int TA, int TB> __device__ inline void two(float (&d)[64], unsigned long long a, unsigned long long b) {{
    {asm}
}}

template <int TA, int TB>
__device__ bool consume_majors(const Plan &plan, unsigned base, unsigned full, unsigned empty, unsigned *D, unsigned char *image,
                               unsigned long long *words, const unsigned char *smem) {{
    const unsigned t = threadIdx.x, w = t / 32;
    float upper[64], lower[64];
    for (int i = 0; i < 64; i++) upper[i] = lower[i] = 0;
    bool good = true;
    for (int tile = 0; tile < plan.stages_of_k; tile++) {{
        const int s = tile % STAGES;
        const unsigned stage = base + s * STAGE_BYTES;
        good = barrier_wait(full + 8 * s, tile / STAGES & 1) && good;
        asm volatile("bar.sync 1, 128;" ::: "memory");
        if (tile == 0 && image)
            for (unsigned x = t; x < STAGE_BYTES; x += 128) image[x] = smem[x];
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int step = 0; step < STEPS; step++) {{
            const unsigned long long a = plan.word_a[step] + (stage >> 4), b = plan.word_b[step] + ((stage + OPERAND_BYTES) >> 4);
            if (t == 0 && image) words[2 * (STEPS * tile + step)] = a, words[2 * (STEPS * tile + step) + 1] = b;
            two<TA, TB>(upper, a, b);
            two<TA, TB>(lower, a + (plan.half_a >> 4), b);
        }}
        asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
        asm volatile("bar.sync 1, 128;" ::: "memory");
        if (t == 0) barrier_arrive(empty + 8 * s);
    }}
    for (int i = 0; i < 64; i++) {{
        const int row = 16 * w + t % 32 / 4 + 8 * ((i >> 1) & 1), column = 2 * (t % 4) + (i & 1) + 8 * (i >> 2);
        D[row * TILE_N + column] = __float_as_uint(upper[i]);
        D[(row + 64) * TILE_N + column] = __float_as_uint(lower[i]);
    }}
    return good;
}}

__device__ bool consume(const Plan &plan, unsigned base, unsigned full, unsigned empty, unsigned *D, unsigned char *image,
                        unsigned long long *words, const unsigned char *smem) {{
    if (!plan.mn_major_a && !plan.mn_major_b) return consume_majors<0, 0>(plan, base, full, empty, D, image, words, smem);
    if (!plan.mn_major_a) return consume_majors<0, 1>(plan, base, full, empty, D, image, words, smem);
    if (!plan.mn_major_b) return consume_majors<1, 0>(plan, base, full, empty, D, image, words, smem);
    return consume_majors<1, 1>(plan, base, full, empty, D, image, words, smem);
}}
"""


def source() -> str:
    kernels = "".join(
        f"GEMM({name}, {i})\nGEMM_PAIR({name}, {i})\n" for i, (kind, name) in enumerate(NAMES.items()) if kind not in missing()
    )
    if settings.arch == "sm_90a":
        kernels = "GEMM(gemm_f16, 0)\n"
    body = (HERE / "gemm.cu").read_text()
    return header() + body.replace("//WGMMA\n", _hopper()).replace("//KERNELS\n", kernels)


def operand(dtype: str, mode: str, major: str, rows: int) -> dict[str, Any]:
    """How `rows` x 128 bytes of K of one operand are loaded and read: box_dim, boxes (shared offset, row, k), the words
    of four K steps.

    In K-major order a box is `rows` of the swizzle width, in MN-major order `k_stage` of them; `half` is the way from
    row 0 to row 64.
    """
    element = ELEMENTS[dtype]
    size = element.bits // 8
    code = LAYOUT_CODES[mode]
    width, k_stage = WIDTHS[code], 128 // size
    per_line, k_step = width // size, 32 // size
    if major == "K":
        box_dim, panel = [per_line, rows], rows * width
        boxes = [(k // per_line * panel, 0, k) for k in range(0, k_stage, per_line)]
        starts = [s * k_step // per_line * panel + s * 32 % width for s in range(STEPS)]
        lbo, sbo = (panel if mode == "none" else 16), 8 * width
        half = 64 * width
    else:
        box_dim, panel = [per_line, k_stage], k_stage * width
        boxes = [(row // per_line * panel, row, 0) for row in range(0, rows, per_line)]
        starts = [s * k_step * width for s in range(STEPS)]
        group = 4 if mode == "128B_ATOM_32B" else 8
        lbo, sbo = (group * width, panel) if mode == "none" else (panel, group * width)
        half = 64 // per_line * panel
    words = [matrix_descriptor(start, lbo, sbo, code) for start in starts]
    return {"box_dim": box_dim, "boxes": boxes, "words": words, "k_stage": k_stage, "half": half}


def variants(arch: str) -> list[dict[str, Any]]:
    """The cases: kind, type, cta_group, swizzle and major of A and B."""
    out = []
    modes = ("128B", "64B", "32B", "none")
    pairs = [(m, m) for m in modes] + [("128B", "32B"), ("none", "128B")]
    for dtype, kind in (("bf16", "f16"), ("f16", "f16"), ("tf32", "tf32"), ("e4m3", "f8f6f4"), ("s8", "i8")):
        if kind in missing():
            continue
        for group in (1, 2):
            for major_a in ("K", "MN"):
                for major_b in ("K", "MN"):
                    for mode_a, mode_b in pairs:
                        if dtype == "tf32":  # MN-major tf32 has one mode
                            mode_a = "128B_ATOM_32B" if major_a == "MN" else mode_a  # noqa: PLW2901
                            mode_b = "128B_ATOM_32B" if major_b == "MN" else mode_b  # noqa: PLW2901
                        one = {
                            "kind": kind,
                            "dtype": dtype,
                            "group": group,
                            "major_a": major_a,
                            "major_b": major_b,
                            "mode_a": mode_a,
                            "mode_b": mode_b,
                        }
                        rows_b = TILE_N // group
                        narrow = major_b == "MN" and WIDTHS[LAYOUT_CODES[mode_b]] * 8 // ELEMENTS[dtype].bits > rows_b
                        hopper = dtype == "bf16" and group == 1
                        if (
                            one not in out
                            and not narrow
                            and (arch != "sm_90a" or hopper)
                            and (dtype != "f16" or pairs.index((mode_a, mode_b)) == 0)
                        ):
                            out.append(one)
    return out


STAGES_OF_K = 5  # more than the ring has, so that every barrier goes round


def data(dtype: str) -> np.ndarray:
    """Codes (2, 256, K): A has 256 rows, B the first 128. Small integers, which every order of summation adds up
    exactly.
    """
    element = ELEMENTS[dtype]
    rng = np.random.default_rng(9401)
    values = rng.integers(-7, 8, (2, 256, STAGES_OF_K * 128 * 8 // element.bits))
    table = np.array([element.encode(int(v)) for v in range(-7, 8)], np.uint32)
    return table[values + 7].astype({8: np.uint8, 16: np.uint16, 32: np.uint32}[element.bits])


def plan_of(case: dict[str, Any]) -> tuple[bytes, list[dict[str, Any]], list[dict[str, Any]], int]:
    """The inputs of a launch of a variant: the plan, the arguments of both tensor maps, how each operand is loaded,
    the instruction descriptor."""
    kind, dtype, group = case["kind"], case["dtype"], case["group"]
    size = ELEMENTS[dtype].bits // 8
    depth = STAGES_OF_K * 128 // size
    maps, sides = [], []
    for letter, in_all, rows in (("a", 256, ROWS), ("b", TILE_N, TILE_N // group)):
        major, mode = case[f"major_{letter}"], case[f"mode_{letter}"]
        side = operand(dtype, mode, major, rows)
        inner, outer = (depth, in_all) if major == "K" else (in_all, depth)
        maps.append({
            "data_type": TMA_TYPES[dtype], "global_dim": [inner, outer], "global_strides": [inner * size],
            "box_dim": side["box_dim"], "element_strides": [1, 1], "swizzle": TMA_SWIZZLES[mode], "l2_promotion": 2,
        })  # fmt: skip
        sides.append(side)
    a, b = sides
    idesc = instruction_descriptor(
        kind, dtype, dtype, m=128 * group, n=TILE_N, d="s32" if kind == "i8" else "f32",
        mn_major_a=case["major_a"] == "MN", mn_major_b=case["major_b"] == "MN",
    )  # fmt: skip
    loaded = sum(len(s["boxes"]) * s["box_dim"][0] * s["box_dim"][1] * size for s in sides)
    flat = [len(a["boxes"]), len(b["boxes"]), a["k_stage"], STAGES_OF_K, ROWS, TILE_N // group]
    flat += [int(case["major_a"] == "MN"), int(case["major_b"] == "MN"), loaded, idesc, a["half"], 0]
    for s in sides:
        for i in range(3):
            flat += ([box[i] for box in s["boxes"]] + [0] * MOST_BOXES)[:MOST_BOXES]
    plan = struct.pack(f"<8i{len(flat) - 8}I", *flat) + struct.pack("<8Q", *a["words"], *b["words"])
    return plan, maps, sides, idesc


def run_gemm(bench: Bench, case: dict[str, Any]) -> dict[str, Any]:
    KERNELS.setdefault(MODULE, source)
    kind, group = case["kind"], case["group"]
    matrices = data(case["dtype"])
    plan, arguments, sides, idesc = plan_of(case)
    maps, buffers = b"", []
    for letter, matrix, encoded in zip("ab", (matrices[0], matrices[1][:TILE_N]), arguments, strict=True):
        stored = np.ascontiguousarray(matrix if case[f"major_{letter}"] == "K" else matrix.T)
        buffers.append(bench.device.array(stored))
        maps += bench.api.encode(encoded, buffers[-1].address)
    d, image = bench.api.Buffer(256 * TILE_N * 4), bench.api.Buffer(32768)
    words, results = bench.api.Buffer(STAGES_OF_K * STEPS * 16), bench.api.Buffer(16)
    results.fill(0)
    for buffer in (d, image, words):  # what a launch leaves alone must not be an earlier one's
        buffer.fill(0xA5)
    function = bench.function(MODULE, f"{NAMES[kind]}_{group}")
    bench.device.launch(
        function, 2, SHARED, bench.device.array(np.frombuffer(maps, np.uint8)), bench.device.array(np.frombuffer(plan, np.uint8)), d, image, words,
        results, threads=192,
    )  # fmt: skip
    return {
        "maps": maps.hex(),
        "d": compressed(d.read(np.uint32)),
        "image": compressed(image.read()),
        "descriptors": words.read(np.uint64).tolist(),
        "idesc": idesc,
        "boxes": [s["boxes"] for s in sides],
        "completed": int(results.read(np.uint32)[:2].min()),
    }


RUNNERS["blackwell_gemm"] = run_gemm


def tcgen05_gemm(bench: Bench, out: pathlib.Path) -> None:
    seed, suite = 9401, "tcgen05_gemm"
    chosen = variants(settings.arch)
    answers = in_processes("blackwell_gemm", chosen)
    pages.report(suite, answers)
    seen: dict[bytes, int] = {}
    d_of, boxes, images = [], {"a": [], "b": []}, []
    for a in answers:
        raw = expanded(a["d"], np.uint32).tobytes() if "d" in a else b""
        d_of.append(seen.setdefault(raw, len(seen)) if raw else -1)
        images.append(expanded(a["image"], np.uint8) if "image" in a else np.zeros(32768, np.uint8))
        for letter, side in zip("ab", a.get("boxes", [[], []]), strict=True):
            boxes[letter].append([*side, *[(-1, 0, 0)] * (MOST_BOXES - len(side))])
    unique = np.array([np.frombuffer(raw, np.uint32).reshape(256, TILE_N) for raw in seen], np.uint32).reshape(-1, 256, TILE_N)
    bench.write(
        out, suite, "tcgen05_gemm",
        "A complete TMA + mbarrier + tcgen05 tile loop, D[256, 128] = A B^T by one CTA a tile or by a pair: maps, descriptors, shared memory, D",
        seed, len(chosen),
        {
            **{f"{letter}_{dtype}": data(dtype)[i] for dtype in {c["dtype"] for c in chosen} for i, letter in enumerate("ab")},
            **{name: np.array([c[name] for c in chosen]) for name in ("kind", "dtype", "major_a", "major_b", "mode_a", "mode_b")},
            "group": np.array([c["group"] for c in chosen], np.uint8),
            "status": np.array([a["status"] for a in answers], np.uint16),
            "completed": np.array([a.get("completed", 0) for a in answers], np.uint8),
            "idesc": np.array([a.get("idesc", 0) for a in answers], np.uint32),
            "maps": np.array([np.frombuffer(bytes.fromhex(a.get("maps", "00" * 256)), np.uint8) for a in answers]),
            "boxes_a": np.array(boxes["a"], np.int32),
            "boxes_b": np.array(boxes["b"], np.int32),
            "descriptors": np.array([a.get("descriptors", [0] * (STAGES_OF_K * STEPS * 2)) for a in answers], np.uint64).reshape(-1, STAGES_OF_K * STEPS, 2),
            "image": np.array(images),
            "d": unique,
            "d_of": np.array(d_of, np.int32),
        },
    )  # fmt: skip


SUITES = {"tcgen05_gemm": tcgen05_gemm}
