"""Times rings of stages on a GPU, right and held back: the kernels of `pipeline_twins.cu`.

    python -m tools.capture.pipeline_twins --build FOLDER               # kernel.ptx, kernel.cubin and launch.json of each kernel; needs nvcc, no GPU
    python -m tools.capture.pipeline_twins --built FOLDER --out FILE    # runs them: the best of 30 launches each, in two rounds; needs a GPU and cuda-bindings
    python -m tools.capture.pipeline_twins --small FOLDER               # the same kernels as launch files of a size that smemsim runs quickly
    python -m tools.capture.pipeline_twins --model FOLDER --out FILE    # what their barriers allow: the rings of each kernel of --small

Kernels run in a process of their own, which is ended if a launch takes longer than half a minute. FILE says for each
kernel what it took, in milliseconds, and a digest of its output: the kernels of a family compute the same.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import hashlib
import json
import pathlib
import select
import subprocess
import sys
from typing import Any

import numpy as np

import smemsim
from smemsim.evidence.launches import load_launch_file
from smemsim.testing.recorder import Gpu

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE / "pipeline_twins.cu"
LAUNCHES, PATIENCE = 30, 30  # launches of a round; seconds until a kernel counts as hung
SIZE, LENGTH, HEADS = 4096, 4096, 64  # on the card
STEPS, SMS = 12, 132  # steps of a small launch; CTAs of a persistent one


@dataclasses.dataclass(frozen=True)
class Twin:
    """A kernel of a family: its macros, how many stages it has, and in plain words what it does."""

    family: str
    defines: dict[str, int | None]
    says: str

    @property
    def stages(self) -> int:
        return self.defines["STAGES"] or 0


def _twins() -> dict[str, Twin]:
    out: dict[str, Twin] = {}

    def add(name: str, family: str, says: str, **defines: int | None) -> None:
        out[name] = Twin(family, defines, says)

    for n in (1, 2, 3, 4, 5):
        add(f"gemm_{n}", "gemm", "right", STAGES=n)
    add("gemm_wrong_stage", "gemm", "the producer waits for the stage that it filled last", STAGES=4, LAG=1)
    add("gemm_stage_before", "gemm", "the producer waits for the stage that it filled before the last", STAGES=4, LAG=2)
    add("gemm_next_stage", "gemm", "the producer waits for the stage after the one that it fills", STAGES=4, LAG=3)
    add("gemm_5_next_stage", "gemm", "the producer waits for the stage after the one that it fills", STAGES=5, LAG=4)
    add("gemm_one_empty", "gemm", "one barrier for the release of all stages", STAGES=4, ONE_EMPTY=None)
    add("gemm_one_group", "gemm", "right: one wgmma group stays in flight, and the stage before is released", STAGES=4, LATE=1, GROUPS=1)
    add("gemm_5_one_group", "gemm", "right: one wgmma group stays in flight, and the stage before is released", STAGES=5, LATE=1, GROUPS=1)
    add("gemm_late", "gemm", "a stage is released one step late, without need", STAGES=4, LATE=1)
    add("gemm_very_late", "gemm", "a stage is released two steps late, without need", STAGES=4, LATE=2)
    add("gemm_three_late", "gemm", "a stage is released three steps late, without need", STAGES=4, LATE=3)
    add("gemm_two_groups", "gemm", "right: two wgmma groups stay in flight", STAGES=4, LATE=2, GROUPS=2)
    add("gemm_own", "gemm", "the producer waits for the load that it just issued", STAGES=4, OWN=None)
    add("gemm_look", "gemm", "the consumers wait for the next stage too", STAGES=4, LOOK=None)
    add("gemm_lock", "gemm", "both consumers meet at each step", STAGES=4, LOCK=None)
    add("gemm_meet", "gemm", "all warps meet at each step, in place of empty barriers", STAGES=4, MEET=None)
    add("split_4", "split", "right: A and B have barriers of their own", STAGES=4, SPLIT=None)
    add("split_b_wrong", "split", "the producer of B waits for the stage that it filled last", STAGES=4, SPLIT=None, LAG_B=1)
    add("split_b_before", "split", "the producer of B waits for the stage that it filled before the last", STAGES=4, SPLIT=None, LAG_B=2)
    add("split_1", "split", "right: A and B have barriers of their own", STAGES=1, SPLIT=None)
    add("split_2", "split", "right: A and B have barriers of their own", STAGES=2, SPLIT=None)
    for n in (1, 2, 3, 4):
        add(f"cluster_{n}", "cluster", "right: two CTAs share the tile of B", STAGES=n, CLUSTER=None)
    add("cluster_wrong_stage", "cluster", "the producers wait for the stage that they filled last", STAGES=4, CLUSTER=None, LAG=1)
    add(
        "cluster_stage_before",
        "cluster",
        "the producers wait for the stage that they filled before the last",
        STAGES=4,
        CLUSTER=None,
        LAG=2,
    )
    for n in (1, 2, 3):
        add(f"attention_{n}", "attention", "right: rings of K and V", STAGES=n)
    add("attention_k_wrong", "attention", "the producer of K waits for the stage that it filled last", STAGES=3, LAG=1)
    add("attention_v_wrong", "attention", "the producer of V waits for the stage that it filled last", STAGES=3, LAG_V=1)
    add("attention_both_wrong", "attention", "the producer waits for the stages that it filled last", STAGES=3, LAG=1, LAG_V=1)
    add("attention_both_before", "attention", "the producer waits for the stages that it filled before the last", STAGES=3, LAG=2, LAG_V=2)
    add("attention_late_k", "attention", "K is released with V", STAGES=2, LATE_K=None)
    for n in (2, 3, 4):
        add(f"copies_{n}", "copies", "right: cp.async", STAGES=n)
    add("copies_wait_all", "copies", "cp.async.wait_group 0 at each step", STAGES=4, PENDING=0)
    add("copies_3_wait_all", "copies", "cp.async.wait_group 0 at each step", STAGES=3, PENDING=0)
    add("copies_wait_one", "copies", "cp.async.wait_group 1 at each step", STAGES=4, PENDING=1)
    add("copies_lock", "copies", "a second __syncthreads at each step", STAGES=4, LOCK=None)
    return out


TWINS = _twins()


def _map(of: str, rows: int, columns: int, box: int) -> dict[str, Any]:
    return {
        "map": {
            "data_type": "bf16", "global_address": of, "global_dim": [columns, rows], "global_strides": [2 * columns], "box_dim": [64, box], "element_strides": [1, 1],
            "interleave": "none", "swizzle": "128B", "l2_promotion": "none", "oob_fill": "zeros",
        }
    }  # fmt: skip


def _array(name: str, rows: int, columns: int) -> dict[str, Any]:
    how: Any = "zeros" if name in "CO" else {"normal": [0, 1]}
    return {"name": name, "dtype": "bf16", "shape": [rows, columns], "seed": 7 + ord(name), "distribution": how}


def launch(name: str, *, is_small: bool) -> dict[str, Any]:
    """The launch file of a kernel: STEPS steps of one CTA (a cluster has two), or the size for a card."""
    twin = TWINS[name]
    numbers = [{"value": n, "type": "s32"} for n in _numbers(twin.family, is_small)]
    if twin.family == "attention":
        length, heads = (64 * STEPS, 1) if is_small else (LENGTH, HEADS)
        arrays = [_array(x, length * heads, 64) for x in "QKVO"]
        args = [*(_map(x, length * heads, 64, 64) for x in "QKV"), {"array": "O"}, *numbers]
        grid, block, shared, cluster = [1 if is_small else length // 128, heads, 1], 384, 16384 + 16384 * twin.stages, 1
    elif twin.family == "copies":
        m, n, k = _numbers("copies", is_small)
        arrays = [_array("A", m, k), _array("B", n, k), _array("C", m, n)]
        args = [*({"array": x} for x in "ABC"), *numbers]
        grid, block, shared, cluster = [n // 128, m // 128, 1], 256, 16384 * twin.stages, 1
    else:
        tm, tn, tk = _numbers(twin.family, is_small)
        cluster = 2 if twin.family == "cluster" else 1
        m, n, k = tm * 128, tn * 128, tk * 64
        arrays = [_array("A", m, k), _array("B", n, k), _array("C", m, n)]
        args = [_map("A", m, k, 128), _map("B", n, k, 64 if cluster == 2 else 128), _map("C", m, n, 64), *numbers]
        grid, block, shared = [tm * tn if is_small else SMS, 1, 1], 384, 32768 * (twin.stages + 1)
    return {
        "schema": "smemsim.launch/1", "title": f"{twin.family} ring of {twin.stages} stages: {twin.says}", "entry": "ring", "arch": "sm_90a", "grid": grid, "block": [block, 1, 1],
        "cluster": [cluster, 1, 1], "shared_bytes": shared, "cooperative": False, "args": args, "arrays": arrays, "outputs": [arrays[-1]["name"]],
        "exact": False, "why_not_exact": "only the time was recorded", "tolerance": {"relative": 0.02, "absolute": 0.1},
    }  # fmt: skip


def _numbers(family: str, is_small: bool) -> tuple[int, ...]:
    """The integers that a kernel takes."""
    if family == "attention":
        return (64 * STEPS if is_small else LENGTH,)
    if family == "copies":
        return (128, 128, 32 * STEPS) if is_small else (SIZE, SIZE, SIZE)
    if is_small:
        return (2 if family == "cluster" else 1, 1, STEPS)
    return (SIZE // 128, SIZE // 128, SIZE // 64)


def build(folder: pathlib.Path, names: list[str], *, is_small: bool) -> None:
    """Compile the kernels and write their launch files."""
    kinds = {"attention": ["ATTENTION"], "copies": ["COPIES"], "cluster": ["GEMM"]}
    for name in names:
        twin, to = TWINS[name], folder / name
        to.mkdir(parents=True, exist_ok=True)
        macros = [f"-D{x}" for x in kinds.get(twin.family, ["GEMM"])]
        macros += [f"-D{key}" if value is None else f"-D{key}={value}" for key, value in twin.defines.items()]
        command = ["nvcc", "-arch=sm_90a", "-O3", "-std=c++17", *macros, SOURCE.name]
        subprocess.run([*command, "-ptx", "-lineinfo", "-o", str((to / "kernel.ptx").resolve())], check=True, cwd=HERE)
        if not is_small:
            subprocess.run(["ptxas", "-arch=sm_90a", "-O3", str(to / "kernel.ptx"), "-o", str(to / "kernel.cubin")], check=True)
        (to / "launch.json").write_text(json.dumps(launch(name, is_small=is_small), indent=1) + "\n")


def model(folder: pathlib.Path, names: list[str], out: pathlib.Path) -> None:
    """Write the stages of each kernel's rings, as how many they work, and how many loads are in flight."""
    found = {}
    for name in names:
        run, _ = smemsim.launch_file(folder / name, pipeline=True, progress=False, sanitize=False)
        rings = run.pipeline.rings
        found[name] = {
            "stages": [len(r.stages) for r in rings],
            "effective": [r.effective for r in rings],
            "in_flight": [r.steady for r in rings],
        }
    out.write_text("{\n" + ",\n".join(f" {json.dumps(name)}: {json.dumps(one)}" for name, one in found.items()) + "\n}\n")


# ---- On the card


class Card:
    """A GPU with the arrays of the kernels."""

    def __init__(self) -> None:
        self.gpu = Gpu()
        self.cu = self.gpu.cu
        self.begin, self.end = (self._ok(self.cu.cuEventCreate(0)) for _ in range(2))
        self._arrays: dict[tuple[str, int], int] = {}

    @staticmethod
    def _ok(result: tuple[Any, ...]) -> Any:
        if int(result[0]):
            raise RuntimeError(f"CUDA error {int(result[0])}")
        return result[1] if len(result) > 1 else None

    def array(self, name: str, count: int) -> int:
        """The address of an array of bf16: eighths from -1 to 1, or zeros for an output."""
        if (name, count) not in self._arrays:
            address = self._arrays[name, count] = self.gpu.allocate(2 * count, 0)
            if name not in "CO":
                values = np.random.default_rng(ord(name)).integers(-8, 9, count).astype(np.float32) / 8
                self.gpu.put(address, (values.view(np.uint32) >> 16).astype(np.uint16))
        return self._arrays[name, count]

    def timed(self, folder: pathlib.Path) -> dict[str, Any]:
        """The milliseconds of each of the launches, and a digest of the output."""
        file = load_launch_file(folder)
        kernel = self.gpu.load((folder / "kernel.cubin").read_bytes()).kernel("ring")
        counts = {x["name"]: int(np.prod(x["shape"])) for x in file.about["arrays"]}
        addresses = {name: self.array(name, count) for name, count in counts.items()}
        (out,) = file.about["outputs"]
        self._ok(self.cu.cuMemsetD8(addresses[out], 0, 2 * counts[out]))
        config = file.config(file.parameters(addresses, self.gpu.encode)).of(kernel)
        if self.gpu.execute(kernel, config):
            raise RuntimeError("the kernel trapped")
        held = [ctypes.create_string_buffer(value, len(value)) for value in config.args]
        pointers = np.array([ctypes.addressof(x) for x in held], np.uint64)
        asked, times = self.gpu._launch_config(config), []
        for _ in range(LAUNCHES):
            self._ok(self.cu.cuEventRecord(self.begin, 0))
            self._ok(self.cu.cuLaunchKernelEx(asked, kernel.handle, pointers.ctypes.data, 0))
            self._ok(self.cu.cuEventRecord(self.end, 0))
            self._ok(self.cu.cuEventSynchronize(self.end))
            times.append(float(self._ok(self.cu.cuEventElapsedTime(self.begin, self.end))))
        data = self.gpu.get(addresses[out], 2 * counts[out])
        return {"best_ms": min(times), "median_ms": float(np.median(times)), "digest": hashlib.sha256(data.tobytes()).hexdigest()[:16]}


def worker(folder: pathlib.Path) -> None:
    """The process that launches: a name a line comes in, a line of JSON goes out."""
    card = Card()
    print(json.dumps(card.gpu.describe()), flush=True)
    for line in sys.stdin:
        try:
            said: dict[str, Any] = card.timed(folder / line.strip())
        except Exception as e:
            # whatever fails is the record of this kernel, and the next one is tried in a new process
            said = {"error": f"{type(e).__name__}: {e}"[:300]}
        print(json.dumps(said), flush=True)


class Worker:
    def __init__(self, folder: pathlib.Path) -> None:
        command = [sys.executable, "-m", "tools.capture.pipeline_twins", "--worker", str(folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self._read(90)

    def _read(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            self.process.kill()
            return {"error": f"no answer within {seconds} s"}
        line = self.process.stdout.readline()
        return dict(json.loads(line)) if line else {"error": "the process ended"}

    def ask(self, name: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return self._read(PATIENCE)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def measure(folder: pathlib.Path, names: list[str], out: pathlib.Path) -> None:
    """Run every kernel in two rounds and write what they took after each."""
    at_work = Worker(folder)
    found: dict[str, Any] = {"about": at_work.about, "launches": LAUNCHES, "kernels": {}}
    for number in range(2):
        for name in names:
            said = at_work.ask(name)
            if "error" in said:
                at_work.end()
                at_work = Worker(folder)
            entry = found["kernels"].setdefault(name, {"says": TWINS[name].says, "rounds": []})
            entry["rounds"].append(said)
            entry["best_ms"] = min((x["best_ms"] for x in entry["rounds"] if "best_ms" in x), default=None)
            out.write_text(json.dumps(found, indent=1) + "\n")
            took = said.get("error") or f"{said['best_ms']:.4f} ms  {said['digest']}"
            print(f"{number} {name:24s} {took}", flush=True)
    at_work.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = parser.add_mutually_exclusive_group(required=True)
    for option in ("--build", "--small", "--built", "--model", "--worker"):
        how.add_argument(option, type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    asked = parser.parse_args()
    names = asked.names or list(TWINS)
    if asked.worker:
        worker(asked.worker)
    elif asked.built or asked.model:
        if asked.out is None:
            parser.error("--built and --model need --out FILE")
        (measure if asked.built else model)(asked.built or asked.model, names, asked.out)
    else:
        build(asked.build or asked.small, names, is_small=asked.small is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
