"""Run smemsim.testing.recorder on the GPU at hand and hold what it wrote against the model: the recorder's own test on silicon.

    python tools/capture/user_recorder.py --out OUT

Records, into folders of OUT, what the built-in kernel does (loads, im2col, a store, traps) and what a kernel of CUDA C++ does (where NVRTC or nvcc is
there), replays every folder through the model, runs every recorded case again, compares the driver's 128 bytes with the model's, and checks that a
damaged byte is found. Prints a line for each and a last line with the verdict; exit code 1 where anything differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import traceback
from collections.abc import Callable

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sim"))

from smemsim import TensorMap  # noqa: E402
from smemsim.errors import InputError  # noqa: E402
from smemsim.testing.cuda import Gpu  # noqa: E402
from smemsim.testing.recorder import DUMP, Launch, MapOf, Recorder, Step, differences, load_launch  # noqa: E402
from smemsim.traces.format import Suite, load_suite, write_suite  # noqa: E402
from smemsim.traces.replay import replay_suite  # noqa: E402

KERNEL = r"""
// A user's kernel: two K-slices of a tile, loaded by TMA, copied out. The window before the first load holds whatever was there.
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void user_kernel(const __grid_constant__ Map map, unsigned char *dump, unsigned bytes, int row) {
    extern __shared__ __align__(1024) unsigned char smem[];
    unsigned base = (unsigned)__cvta_generic_to_shared(smem), barrier = base + bytes;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], %1; }" ::"r"(barrier), "r"(bytes) : "memory");
        for (int k = 0; k < 2; k++)
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                         ::"r"(base + k * bytes / 2), "l"(&map), "r"(k * 64), "r"(row), "r"(barrier) : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    for (long long begin = clock64(); !done && clock64() - begin < 20000000;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier) : "memory");
    for (unsigned i = threadIdx.x; i < bytes; i += blockDim.x) dump[i] = done ? smem[i] : 0;
}
"""


def tiled(dims: tuple[int, ...], box: tuple[int, ...], data_type: str = "bf16", size: int = 2, **more: object) -> TensorMap:
    strides = [size]
    for extent in dims[:-1]:
        strides.append(-(-strides[-1] * extent // 16) * 16)
    return TensorMap.tiled(data_type=data_type, global_address=0, global_dim=dims, global_strides=tuple(strides[1:]), box_dim=box, **more)


def contents(tm: TensorMap, rng: np.random.Generator) -> np.ndarray:
    size = tm.global_strides[-1] * tm.global_dim[-1] if tm.global_strides else tm.global_dim[0] * tm.type_row.itemsize
    return rng.integers(0, 256, -(-size // 16) * 16, np.uint8)


def built_in(
    recorder: Recorder, out: pathlib.Path, name: str, maps: dict[str, TensorMap], steps: list[Step], outputs: tuple[str, ...] = ()
) -> Suite:
    rng = np.random.default_rng(hash_of(name))
    tensors = {f"tensor_{key}": contents(tm, rng) for key, tm in maps.items()}
    of = {key: MapOf(f"tensor_{key}", tm) for key, tm in maps.items()}
    kernel, launch = load_launch(recorder.arch, tensors=tensors, maps=of, steps=steps, outputs=outputs)
    done = recorder.run(kernel, launch)
    for key, raw in zip(maps, done.maps, strict=True):
        model = (
            bytes(TensorMap.tiled(**maps[key].arguments | {"global_address": done.addresses[f"tensor_{key}"]}))
            if maps[key].box_dim
            else None
        )
        if model is not None and model != raw:
            apart = TensorMap.from_bytes(raw).unknown_fields
            print(f"  {name}: the driver's 128 bytes of {key} differ from the model's: {', '.join(apart) or 'arguments'}")
            if not set(apart) <= {"backing_hint"}:
                raise AssertionError("map bytes differ")
    return recorder.write(out / name, kernel, [done], title=f"Recorder on silicon: {name}", command="python tools/capture/user_recorder.py")


def hash_of(name: str) -> int:
    return sum((i + 1) * ord(c) for i, c in enumerate(name))


def user_kernel(recorder: Recorder, out: pathlib.Path) -> Suite:
    tm = tiled((128, 96), (64, 64), swizzle="128B")
    data = contents(tm, np.random.default_rng(7))
    kernel = recorder.compile(KERNEL, "user_kernel")
    begin, size = 0x400, 2 * 64 * 128
    steps = [Step("tm", (64 * k, 16), begin + k * size // 2) for k in range(2)]
    base = Launch({"A": data}, {"tm": MapOf("A", tm)}, steps, ["tm", DUMP, size, 16], begin, size, size + 16)
    rows = [dataclasses.replace(base, steps=[Step("tm", (64 * k, row), begin + k * size // 2) for k in range(2)], arguments=["tm", DUMP, size, row])
            for row in (0, 16, 40, -3)]  # fmt: skip
    done = [recorder.run(kernel, one) for one in rows]
    return recorder.write(
        out / "user_kernel",
        kernel,
        done,
        title="Recorder on silicon: a kernel of CUDA C++",
        command="python tools/capture/user_recorder.py",
    )


def damaged(suite: Suite, out: pathlib.Path) -> None:
    """One bit of the dump changed: the replay must say where."""
    arrays = {name: array.copy() for name, array in suite.arrays.items()}
    arrays["dump"][len(arrays["dump"]) // 2] ^= 0x10
    about = {key: suite.manifest[key] for key in ("suite", "kind", "arch", "title", "device", "source")}
    write_suite(out / "damaged", cases=len(suite), arrays=arrays, **about)
    report = replay_suite(load_suite(out / "damaged"))
    if report.differing != 1:
        raise AssertionError(f"a damaged byte was not found: {report.text()}")
    (out / "damaged" / "manifest.json").unlink()  # so that nobody takes it for a trace
    (out / "damaged" / "data.npz").unlink()
    (out / "damaged").rmdir()


def suites(recorder: Recorder, out: pathlib.Path) -> dict[str, Callable[[], Suite]]:
    a = tiled((64, 128), (64, 64), swizzle="128B")
    f32 = tiled((40, 7, 3), (8, 4, 2), "f32", 4, swizzle="32B", oob_fill="nan")
    big = tiled((256, 512), (64, 128), swizzle="128B")  # from 128 KiB on newer drivers set a hint
    pixels = TensorMap.im2col(data_type="f16", global_address=0, global_dim=(64, 8, 8, 2), global_strides=(128, 1024, 8192),
                              pixel_box_lower_corner=(-1, -1), pixel_box_upper_corner=(-1, -1), channels_per_pixel=64, pixels_per_column=32,
                              swizzle="128B")  # fmt: skip
    rows, copy = tiled((32, 16), (32, 8), "u8", 1), tiled((32, 8), (32, 8), "u8", 1)
    line = tiled((256,), (128,), "u8", 1)
    return {
        "swizzled": lambda: built_in(recorder, out, "swizzled", {"a": a}, [Step("a", (0, 0), 0x400), Step("a", (0, 96), 0x2400)]),
        "three_dimensions": lambda: built_in(recorder, out, "three_dimensions", {"f": f32}, [Step("f", (36, 5, -1), 0x480), Step("f", (0, 0, 0), 0x1080)]),
        "hinted": lambda: built_in(recorder, out, "hinted", {"big": big}, [Step("big", (64, 448), 0x400)]),
        "im2col": lambda: built_in(recorder, out, "im2col", {"p": pixels}, [Step("p", (0, -1, -1, 0), 0x400, im2col_offsets=(1, 2))]),
        "store": lambda: built_in(recorder, out, "store", {"rows": rows, "copy": copy}, [Step("rows", (0, 4), 0x400), Step("copy", (0, 0), 0x400, True)],
                                  outputs=("tensor_copy",)),
        "user_kernel": lambda: user_kernel(recorder, out),
        "trap": lambda: built_in(recorder, out, "trap", {"line": line}, [Step("line", (0,), 0x410)]),  # the last: CUDA has ended then
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="where the trace folders go")
    out = parser.parse_args().out
    recorder, wrong = Recorder(), 0
    print(f"{recorder.gpu.describe()}")
    for name, make in suites(recorder, out).items():
        try:
            suite = make()
            report = replay_suite(suite)
            print(report.text())
            wrong += not report.same
            for case in range(len(suite)) if not Gpu.ended else ():
                if text := differences(suite, case, recorder.rerun(suite, case)):
                    print(f"  run again: {text}")
                    wrong += 1
            if not suite.arrays["status"].any():
                damaged(suite, out)
        except InputError as e:
            if "no compiler" not in str(e):
                print(f"{name}: {e}")
                wrong += 1
            else:
                print(f"{name}: skipped, {e}")
        except Exception:
            print(f"{name}: {traceback.format_exc()}")
            wrong += 1
    print("verdict: hardware, model and second runs agree" if not wrong else f"verdict: {wrong} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
