"""Coverage-guided fuzzing of everything that reads text: inputs that reach new lines are kept and changed further.

    python tools/fuzz_parsers.py --seconds 120                  each target for two minutes
    python tools/fuzz_parsers.py --only cute,calls --seconds 600

Needs the package atheris, which is not among smemsim's own. A target takes bytes, and answers or raises a SmemsimError
whose text is a sentence; anything else is printed with its place and the input, each kind once. Exit code 1 where there
is any. `robustness.py` does the same with damaged examples, without looking at the coverage.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
SLOWEST = 10  # seconds that one input may take
MEMORY = 3000  # megabytes


def targets(folder: pathlib.Path) -> dict[str, tuple[Callable[[bytes], Any], list[bytes]]]:
    """Of each target what takes the bytes, and examples to begin with."""
    from smemsim import CuteLayout, TensorMap
    from smemsim.base.errors import SmemsimError
    from smemsim.cli.decode import read_input
    from smemsim.cli.options import parse_address, parse_numbers, parse_offsets, parse_word
    from smemsim.core.words.tensor_map.dump import parse_dump
    from smemsim.core.words.tensor_map.text import value
    from smemsim.diagnosis.scenario import read_scenario
    from smemsim.evidence.format import DATA, MANIFEST, load_suite
    from tools.doors.damage import WORDS
    from tools.doors.texts import CALLS, CUTE, DUMPS
    from tools.doors.texts import WORDS as PRINTED

    def text(data: bytes) -> str:
        return data.decode("utf-8", "replace")

    def scenario(suffix: str) -> Callable[[bytes], Any]:
        path = folder / f"case{suffix}"

        def read(data: bytes) -> None:
            path.write_bytes(data)
            read_scenario(path)

        return read

    def trace(data: bytes) -> None:
        (folder / MANIFEST).write_bytes(data)
        load_suite(folder)

    def calls(data: bytes) -> None:
        for _ in read_input((text(data),), None).maps:
            TensorMap.parse(text(data))

    def printed(data: bytes) -> None:
        failed: SmemsimError | None = None
        for read in (parse_word, lambda t: parse_numbers("--at", t, "coordinates"), parse_offsets, lambda t: parse_address("--smem", t)):
            try:
                read(text(data))
            except SmemsimError as e:
                failed = e
        if failed:
            raise failed

    source = ROOT / "golden" / "sm_90a" / "encode_pointers"
    (folder / DATA).write_bytes((source / DATA).read_bytes())
    scenarios = [path.read_bytes() for path in sorted((ROOT / "tests" / "scenarios").glob("*/*.toml"))]
    tomls = [data for data in scenarios if len(data) < 2000]
    import tomllib

    jsons = [json.dumps(tomllib.loads(text(data))).encode() for data in tomls]
    expressions = [b"{64, 128}", b"64 * sizeof(half)", b"(cuuint64_t[2]){64ull, (int)0x80}", b"strides + 1", b"[1] * 2", b"1 << 7 | ~0x3"]
    expressions += [word.encode("utf-8", "replace") for word in WORDS if len(word) < 20]
    return {
        "toml": (scenario(".toml"), tomls),
        "json": (scenario(".json"), jsons),
        "cute": (lambda data: CuteLayout.parse(text(data)), [t.encode() for t in CUTE]),
        "calls": (calls, [t.encode() for t in CALLS]),
        "dumps": (lambda data: parse_dump(text(data)), [t.encode() for t in DUMPS]),
        "expressions": (lambda data: value("global_dim", text(data)), expressions),
        "traces": (trace, [(source / MANIFEST).read_bytes()]),
        "printed": (printed, [t.encode() for t in PRINTED]),
    }


def fuzz(name: str, seconds: int, found: pathlib.Path) -> None:
    """Runs one target; does not return. Every kind of defect becomes a line of the file `found`."""
    import atheris

    with atheris.instrument_imports(include=["smemsim", "tomllib"]):
        pass
    from smemsim.base.errors import SmemsimError
    from tools.doors.damage import WORDS
    from tools.doors.guard import bad_sentence, place

    folder = found.parent / name
    corpus = folder / "corpus"
    corpus.mkdir(parents=True)
    target, examples = targets(folder)[name]
    for number, example in enumerate(examples):
        (corpus / str(number)).write_bytes(example)
    words = [
        *WORDS,
        "((",
        "sizeof",
        "cuTensorMapEncodeTiled(&t,",
        "CU_TENSOR_MAP_DATA_TYPE_UINT8",
        "Sw<3,4,3> o ",
        "[[step]]",
        "[tensor.A]",
        "op = ",
    ]
    quoted = ["".join(f"\\x{b:02x}" for b in word.encode("utf-8", "replace")) for word in words if 0 < len(word) < 60]
    (folder / "words").write_text("".join(f'"{word}"\n' for word in quoted))
    known = set()

    def one(data: bytes) -> None:
        try:
            target(data)
        except SmemsimError as e:
            why, error = bad_sentence(e), e
            if not why:
                return
        except Exception as e:
            why, error = type(e).__name__, e  # type: ignore[assignment]
        else:
            return
        kind = f"{why.partition(' ')[0]} {type(error).__name__} at {place(error)}"
        if kind not in known:
            known.add(kind)
            with found.open("a") as file:
                file.write(json.dumps({"target": name, "kind": kind, "error": str(error)[:300], "input": data.hex()[:4000]}) + "\n")

    options = [f"-max_total_time={seconds}", f"-timeout={SLOWEST}", f"-rss_limit_mb={MEMORY}", "-max_len=4096", f"-dict={folder / 'words'}"]
    atheris.Setup(["fuzz_parsers", *options, f"-artifact_prefix={folder}/", "-print_final_stats=1", "-verbosity=0", str(corpus)], one)
    atheris.Fuzz()


def _ran(name: str, seconds: int, found: pathlib.Path) -> tuple[int, int]:
    """(inputs, 1 for a target that hung or fell over) of one target in a process of its own."""
    command = [sys.executable, __file__, "--seconds", str(seconds), "--target", name, "--found", str(found)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    units = [line.split()[-1] for line in done.stderr.splitlines() if line.startswith("stat::number_of_executed_units")]
    if done.returncode:
        told = "\n    ".join(done.stderr.strip().splitlines()[-12:])
        left = [p for pattern in ("timeout-*", "oom-*", "crash-*") for p in (found.parent / name).glob(pattern)]
        print(f"  {name}: ended with {done.returncode}\n    {told}")
        for path in left:
            print(f"    {path.name}: {path.read_bytes()[:2000].hex()}")
    return int(units[0]) if units else 0, int(done.returncode != 0)


def main() -> int:
    names = ["toml", "json", "cute", "calls", "dumps", "expressions", "traces", "printed"]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--only", default=",".join(names), help=f"of {', '.join(names)}")
    parser.add_argument("--target", help=argparse.SUPPRESS)
    parser.add_argument("--found", type=pathlib.Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        parser.error("needs the package atheris: pip install atheris")
    if given.target:
        fuzz(given.target, given.seconds, given.found)
    if strange := [name for name in given.only.split(",") if name not in names]:
        parser.error(f"{', '.join(strange)}: not one of {', '.join(names)}")
    defects = 0
    with tempfile.TemporaryDirectory(prefix="smemsim-") as folder:
        for name in given.only.split(","):
            found = pathlib.Path(folder) / f"{name}.jsonl"
            inputs, fell = _ran(name, given.seconds, found)
            lines = found.read_text().splitlines() if found.exists() else []
            defects += len(lines) + fell
            print(f"{name:12}{inputs:>12,} inputs{len(lines):>6} kinds of defects", flush=True)
            for line in lines:
                print(f"  {line}", flush=True)
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
