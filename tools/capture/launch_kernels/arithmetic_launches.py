"""Launches whose kernels compute a result a thread: integers, conversions, floating point, memory instructions."""

from __future__ import annotations

from tools.capture.launch_kernels.spec import array, cuda, zeros

N, BLOCK, GRID = 512, 128, 4


def words(name: str, dtype: str = "u32") -> dict[str, object]:
    return array(name, dtype, N, "bits")


def numbers(name: str, dtype: str) -> dict[str, object]:
    return array(name, dtype, N, "floats")


def per_thread(name: str, title: str, args: list[dict[str, object]], outputs: str = "out", **more: object) -> None:
    cuda(name, title, args, outputs, grid=GRID, block=BLOCK, **more)


per_thread("alu_int32", "32-bit integer arithmetic as C++ writes it", [words("A"), words("B"), words("C"), zeros("out", "u32", (60, N))])
per_thread("alu_int32_forms", "Forms of 32-bit integer instructions", [words("A"), words("B"), words("C"), zeros("out", "u32", (64, N))])
per_thread(
    "alu_int64", "64-bit integer arithmetic", [words("A", "u64"), words("B", "u64"), words("C", "u64"), zeros("out", "u64", (50, N))]
)
per_thread("alu_small", "8- and 16-bit integers", [words("bytes", "u8"), words("halves", "u16"), zeros("out", "u32", (20, N)), zeros("bytes_out", "u8", 2 * N),
           zeros("halves_out", "u16", 2 * N)], "out bytes_out halves_out")  # fmt: skip
per_thread("vector_memory", "Loads and stores of every width, with cache operators, hints and policies",
           [array("words", "u32", 5 * N, "bits"), zeros("out", "u32", 16 * N), array("doubles", "f64", 2 * N, {"normal": [0, 1]})], "out doubles")  # fmt: skip
per_thread("cvt_int_int", "Conversions between integer types", [words("A", "u64"), zeros("out", "u64", (190, N))])
per_thread("cvt_float_int", "Conversions between floating point and integers", [numbers("f32s", "f32"), numbers("f64s", "f64"), numbers("f16s", "f16"),
           numbers("bf16s", "bf16"), words("integers", "u64"), zeros("out", "u64", (150, N))])  # fmt: skip
per_thread("cvt_float_float", "Conversions between floating-point types", [numbers("f32s", "f32"), numbers("f64s", "f64"), numbers("f16s", "f16"),
           numbers("bf16s", "bf16"), zeros("out", "u32", (90, N))])  # fmt: skip
per_thread("float_f32", "f32 arithmetic", [numbers("A", "f32"), numbers("B", "f32"), numbers("C", "f32"), zeros("out", "f32", (90, N))])
per_thread("float_f64", "f64 arithmetic", [numbers("A", "f64"), numbers("B", "f64"), numbers("C", "f64"), zeros("out", "f64", (60, N))],
           why_not_exact="of two NaN operands an f64 instruction hands one on: which one, ptxas decides, when it orders commutative operands",
           tolerance={"relative": 0.0, "absolute": 0.0})  # fmt: skip
per_thread("float_half2", "f16, bf16 and pairs of them", [words("A"), words("B"), words("C"), zeros("out", "u32", (80, N))])
per_thread("approximate", "Instructions that hardware approximates", [array("A", "f32", N, {"normal": [0, 4]}), array("B", "f32", N, {"normal": [0, 1]}),
           array("halves", "u32", N, "bits"), zeros("out", "f32", (17, N)), zeros("out_halves", "u32", (4, N)), zeros("out_doubles", "f64", (2, N))],
           "out out_halves out_doubles", why_not_exact="every instruction is an approximation")  # fmt: skip
per_thread("math_library", "Functions of CUDA's math library", [array("A", "f32", N, {"normal": [0, 4]}), array("B", "f32", N, {"normal": [0, 1]}),
           zeros("out", "f32", (23, N)), zeros("doubles", "f64", (3, N))], "out doubles", why_not_exact="ex2, lg2, rcp and rsqrt are approximations")  # fmt: skip
