"""Run smemsim.testing.recorder on the GPU at hand and hold what it wrote against the model: the
recorder's own test on silicon.

    python tools/capture/user_recorder.py --out OUT        (the golden suites recorder_*: --out golden/sm_90a)

Records, into four folders of OUT, what the built-in kernel does (loads, im2col, a store, a trap) and what a kernel of
CUDA C++ does (where NVRTC or nvcc is there), replays every folder through the model, runs every recorded case again,
compares the driver's 128 bytes with the model's, and checks that a damaged byte is found. Prints a line for each and a
last line with the verdict; exit code 1 where anything differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import traceback
from collections.abc import Callable

import numpy as np

from smemsim import TensorMap
from smemsim.base.errors import InputError
from smemsim.evidence.format import Suite, load_suite, write_suite
from smemsim.evidence.replay import replay_suite
from smemsim.testing.recorder import (
    DUMP,
    Gpu,
    Kernel,
    Launch,
    MapOf,
    Recorded,
    Recorder,
    Step,
    differences,
    load_launch,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]


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


Work = tuple[dict[str, TensorMap], list[Step]]  # maps and the transfers that one launch makes through them


def prepared(recorder: Recorder, name: str, work: list[Work], outputs: tuple[str, ...] = ()) -> tuple[Kernel, list[Launch]]:
    """The built-in kernel, which all the launches share, and the launches."""
    rng, made = np.random.default_rng(sum(name.encode())), []
    for maps, steps in work:
        tensors = {f"tensor_{key}": contents(tm, rng) for key, tm in maps.items()}
        of = {key: MapOf(f"tensor_{key}", tm) for key, tm in maps.items()}
        made.append(load_launch(recorder.arch, tensors=tensors, maps=of, steps=steps, outputs=outputs))
    if len({kernel.image for kernel, _ in made}) != 1:
        raise AssertionError(f"{name}: the launches of a suite share a kernel; these differ in the kinds of their steps")
    return made[0][0], [launch for _, launch in made]


def maps_as_the_model_has_them(name: str, done: Recorded) -> None:
    """The driver's 128 bytes against the model's; newer drivers set a hint."""
    for (key, one), raw in zip(done.launch.maps.items(), done.maps, strict=True):
        tm = one.tensor_map
        if not isinstance(tm, TensorMap) or not tm.box_dim:
            continue
        if bytes(TensorMap.tiled(**tm.arguments | {"global_address": done.addresses[one.tensor]})) != raw:
            apart = TensorMap.from_bytes(raw).unknown_fields
            print(f"  {name}: the driver's 128 bytes of {key} differ from the model's: {', '.join(apart) or 'arguments'}")
            if not apart or not set(apart) <= {"backing_hint"}:
                raise AssertionError("map bytes differ")


def user_kernel(recorder: Recorder) -> tuple[Kernel, list[Launch]]:
    tm = tiled((128, 96), (64, 64), swizzle="128B")
    data = contents(tm, np.random.default_rng(7))
    begin, size = 0x400, 2 * 64 * 128

    def at(row: int) -> Launch:
        steps = [Step("tm", (64 * k, row), begin + k * size // 2) for k in range(2)]
        return Launch({"A": data}, {"tm": MapOf("A", tm)}, steps, ["tm", DUMP, size, row], begin, size, size + 16)

    return recorder.compile(KERNEL, "user_kernel"), [at(row) for row in (0, 16, 40, -3)]


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


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A suite: its title, the kernel and launches, and how many of them end CUDA (the last one, or none)."""

    title: str
    make: Callable[[Recorder], tuple[Kernel, list[Launch]]]
    traps: int = 0


def suites() -> dict[str, Wanted]:
    a = tiled((64, 128), (64, 64), swizzle="128B")
    big = tiled((128, 512), (64, 128), swizzle="128B")  # from 128 KiB on newer drivers set a hint
    line = tiled((256, 4), (128, 2), "u8", 1)
    loads = [({"tm": a}, [Step("tm", (0, 0), 0x400), Step("tm", (0, 96), 0x2400)]), ({"tm": big}, [Step("tm", (64, 448), 0x400), Step("tm", (-32, 0), 0x4400)]),
             ({"tm": line}, [Step("tm", (0, 0), 0x410), Step("tm", (128, 0), 0x600)])]  # fmt: skip
    pixels = TensorMap.im2col(data_type="f16", global_address=0, global_dim=(64, 8, 8, 2), global_strides=(128, 1024, 8192),
                              pixel_box_lower_corner=(-1, -1), pixel_box_upper_corner=(-1, -1), channels_per_pixel=64, pixels_per_column=32,
                              swizzle="128B")  # fmt: skip
    im2col = [
        ({"p": pixels}, [Step("p", start, 0x400, im2col_offsets=offsets)])
        for start, offsets in (((0, -1, -1, 0), (1, 2)), ((0, 3, 6, 1), (0, 0)))
    ]
    box = {"data_type": "f32", "size": 4, "swizzle": "32B"}
    spaces, copy = tiled((40, 7, 3), (8, 4, 2), oob_fill="nan", **box), tiled((8, 4, 2), (8, 4, 2), **box)
    stores = [({"of": spaces, "copy": copy}, [Step("of", start, 0x480), Step("copy", onto, 0x480, True)])
              for start, onto in (((36, 5, -1), (0, 0, 0)), ((0, 0, 0), (0, 2, 1)))]  # fmt: skip
    return {
        "recorder_kernel": Wanted("A kernel of CUDA C++ recorded by smemsim.testing.recorder: two K slices of a tile, as a user records them", user_kernel),
        "recorder_im2col": Wanted("im2col loads by the recorder's own kernel", lambda r: prepared(r, "im2col", im2col)),
        "recorder_stores": Wanted("Tiles loaded and stored again by the recorder's own kernel", lambda r: prepared(r, "stores", stores, ("tensor_copy",))),
        "recorder_loads": Wanted("Tiled loads by the recorder's own kernel, the last one a trap", lambda r: prepared(r, "loads", loads), traps=1),
    }  # fmt: skip


def recorded(recorder: Recorder, out: pathlib.Path, name: str, wanted: Wanted) -> int:
    """Record one suite, and hold it against model and card; how many problems there were."""
    kernel, launches = wanted.make(recorder)
    whole, problems = len(launches) - wanted.traps, 0
    done: list[Recorded] = []
    for part in (launches[:whole], launches[whole:]):
        if not part:
            continue
        done += [recorder.run(kernel, launch) for launch in part]
        for one in done:
            maps_as_the_model_has_them(name, one)
        suite = recorder.write(out / name, kernel, done, title=wanted.title, command=f"python tools/capture/user_recorder.py: {name}")
        report = replay_suite(suite)
        print(report.text())
        problems += not report.same
        if Gpu.ended:
            continue
        for case in range(len(suite)):
            if text := differences(suite, case, recorder.rerun(suite, case)):
                print(f"  run again: {text}")
                problems += 1
        damaged(suite, out)
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, required=True, help="where the trace folders go")
    out = parser.parse_args().out
    recorder, wrong = Recorder(), 0
    print(f"{recorder.device}")
    for name, wanted in suites().items():
        try:
            wrong += recorded(recorder, out, name, wanted)
        except InputError as e:
            told = "skipped, " if "no compiler" in str(e) else ""
            print(f"{name}: {told}{e}")
            wrong += not told
        except Exception:
            print(f"{name}: {traceback.format_exc()}")
            wrong += 1
    print("verdict: hardware, model and second runs agree" if not wrong else f"verdict: {wrong} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
