"""Textures and surfaces: the suites that keep what a card gives for samples, stores and traps.

The probe is a separate program, because the runtime makes textures. A case that traps ends its process. The next
process continues with the next case. CUDA can report the trap of a kernel only after the synchronisation that follows
it. Then the next case of the process would get the error. So cases of which many trap get a process each, and the probe
waits before it asks once more.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import pathlib
import struct
import subprocess
import tempfile

import numpy as np

from smemsim.capture.bench import HERE, WORKERS, Bench, ragged, settings
from smemsim.capture.texture_cases import GATHER, TextureCase, all_cases, written
from smemsim.capture.texture_ops import OPS, kernel_of, kernels

__all__ = ["SUITES"]


# that are kept of a case, 72 of others
SAMPLES = {"planes": 768, "narrow": 768, "between_levels": 96, "seams": 512, "cubes": 192}
SEED = 20
LATE = 200_000  # microseconds that a kernel which may trap gets to report it, after its synchronisation
# number of the case; what making, filling, the object, the end, reading back and the launch returned
SAID = struct.Struct("<7i")

Answer = tuple[tuple[int, ...], np.ndarray, np.ndarray]  # what was said, the results, the array afterwards


def build() -> pathlib.Path:
    """The probe."""
    program = HERE / "build" / "texture_probe"
    program.parent.mkdir(exist_ok=True)
    code = f"-gencode=arch={settings.arch.replace('sm', 'compute')},code={settings.arch}"
    subprocess.run(["nvcc", "-std=c++17", code, "-o", str(program), str(HERE / "texture_probe.cu")], check=True)
    return program


def run_once(program: pathlib.Path, cases: list[TextureCase], wait: int) -> list[Answer]:
    """The answers of the cases up to the first that traps; each kernel has `wait` microseconds to report a trap."""
    with tempfile.TemporaryDirectory() as folder:
        given, told, texts = (pathlib.Path(folder) / name for name in ("cases", "answers", "kernels"))
        given.write_bytes(written(cases))
        texts.write_bytes(kernels())
        subprocess.run([str(program), str(given), str(told), str(texts), str(wait)], capture_output=True, timeout=300, check=True)
        raw = told.read_bytes()
    out, at = [], 0
    for case in cases:
        if at == len(raw):
            break
        said = SAID.unpack_from(raw, at)[1:]
        results = np.frombuffer(raw, np.uint32, 4 * len(case.samples), at + SAID.size)
        at += SAID.size + results.nbytes
        after = np.frombuffer(raw, np.uint8, len(case.data) if case.is_surface else 0, at)
        at += after.nbytes
        out.append((said, results, after))
    return out


def run(cases: list[TextureCase], are_alone: bool) -> list[Answer]:
    """The answers of all cases, by as many processes as it takes, or by one for each case."""
    program = build()

    def shard(members: list[TextureCase]) -> list[Answer]:
        done: list[Answer] = []
        while len(done) < len(members):
            more = run_once(program, members[len(done) :], LATE if are_alone else 0)
            if not more:
                raise SystemExit(f"the probe answers nothing to case {len(done)} of {len(members)} of its share: {members[len(done)]}")
            done += more
        return done

    count = len(cases) if are_alone else WORKERS
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        answers = list(pool.map(shard, [cases[n::count] for n in range(count)]))
    return [answers[n % count][n // count] for n in range(len(cases))]


def fewer(case: TextureCase) -> TextureCase:
    """The case with the samples that are kept of it, evenly chosen; every value of a byte
    stays, of 16 bits every 64th.
    """
    most = SAMPLES.get(case.suite, 72) * settings.more
    if case.suite == "reads" and len(case.samples) in (256, 65536):
        most = 1024
    step = -(-len(case.samples) // most) if len(case.samples) else 1
    return dataclasses.replace(case, samples=case.samples[::step])


def write(bench: Bench, out: pathlib.Path, suite: str, title: str, cases: list[TextureCase], are_alone: bool = False) -> None:
    answers = run(cases, are_alone)
    kept = [
        (case, answer) for case, answer in zip(cases, answers, strict=True) if not (any(answer[0][:3]) or answer[0][5])
    ]  # there was a launch
    ops = sorted({case.op for case, _ in kept})
    columns = {
        "resource": np.uint8, "flags": np.uint8, "levels": np.uint8, "kind": np.uint8, "filter": np.uint8, "read": np.uint8, "srgb": np.uint8,
        "normalized": np.uint8, "mip_filter": np.uint8, "bias": np.float32, "least": np.float32, "most": np.float32, "seamless": np.uint8,
        "pitch": np.uint32, "is_surface": np.uint8,
    }  # fmt: skip
    arrays = {
        "op": np.array([case.op for case, _ in kept]),
        "program": np.array([ops.index(case.op) for case, _ in kept], np.uint16),
        "ptx": np.array([kernel_of(op) for op in ops]),
        "size": np.array([case.size for case, _ in kept], np.uint32),
        "bits": np.array([case.bits for case, _ in kept], np.uint8),
        "address": np.array([case.address for case, _ in kept], np.uint8),
        "border": np.array([case.border for case, _ in kept], np.float32),
        **{name: np.array([getattr(case, name) for case, _ in kept], dtype) for name, dtype in columns.items()},
        "status": np.array([answer[0][3] for _, answer in kept], np.uint16),
        **ragged("data", [case.data for case, _ in kept], np.uint8),
        **ragged("samples", [case.samples for case, _ in kept], np.uint32),
        **ragged("results", [answer[1] if not answer[0][3] else answer[1][:0] for _, answer in kept], np.uint32),
        **ragged("after", [answer[2] if not answer[0][3] else answer[2][:0] for _, answer in kept], np.uint8),
    }
    bench.write(out, suite, kind="texture", title=title, seed=SEED, cases=len(kept), arrays=arrays)


def is_known(op: str) -> bool:
    """For queries: those that a driver loads."""
    return op.rpartition(".")[2] in ("width", "height", "depth")


def textures(bench: Bench, out: pathlib.Path) -> None:
    """Everything that only reads, gradients apart."""
    cases = [c for c in all_cases(SEED) if not c.is_surface and c.suite not in ("refusals", "traps", "gradients")]
    cases = [c for c in cases if c.suite != "queries" or (is_known(c.op) and c.bits == (32, 0, 0, 0))]
    cases = [c for c in cases if not (c.flags & GATHER and c.op.startswith(("tld4.r.a2d", "tld4.r.cube")))]
    title = "What textures give: every dimension, format, address mode and filter, layers, cubemaps, levels of detail, gathers, queries"
    write(bench, out, "textures", title, [fewer(c) for c in cases])


def surfaces(bench: Bench, out: pathlib.Path) -> None:
    """Loads, stores and reductions that do not trap."""
    cases = [c for c in all_cases(SEED) if c.is_surface and c.suite in ("surfaces", "queries") and (c.suite != "queries" or is_known(c.op))]
    cases = [c for c in cases if c.suite != "queries" or c.bits == (32, 0, 0, 0)]
    write(
        bench,
        out,
        "surfaces",
        "What surfaces give, and the arrays that stores and reductions leave: bytes and formats, inside and outside",
        [fewer(c) for c in cases],
    )


def surface_traps(bench: Bench, out: pathlib.Path) -> None:
    """Surface accesses that may trap, each in a process of its own."""
    cases = [c for c in all_cases(SEED) if c.suite == "traps" and c.is_surface and not c.no_object and c.op in OPS]
    write(
        bench,
        out,
        "surface_traps",
        "Surface accesses that may trap: outside, off their size, of other formats; the outcome is the CUDA error or what they gave",
        cases,
        are_alone=True,
    )


SUITES = {f.__name__: f for f in (textures, surfaces, surface_traps)}
