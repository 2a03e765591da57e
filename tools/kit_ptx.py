"""Write the PTX of the capture kit's kernels into the package, so that a card needs no toolkit: `python -m
tools.kit_ptx [ARCH...]`.

nvcc compiles each kernel. `.version` is lowered to the oldest one with which ptxas takes the text, so that older
drivers compile it too.
"""

from __future__ import annotations

import concurrent.futures
import io
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

from smemsim.capture import kernels
from smemsim.capture.bench import settings
from smemsim.capture.one_suite import kernels_of

ARCHS = ("sm_90a", "sm_100a", "sm_103a")
VERSIONS = ("8.0", "8.1", "8.3", "8.6", "8.7", "8.8", "9.0")


def ptx(name: str, text: str, arch: str) -> str:
    """The PTX of one kernel."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = pathlib.Path(folder) / f"{name}.cu", pathlib.Path(folder) / f"{name}.ptx"
        source.write_text(text)
        subprocess.run(["nvcc", "-ptx", f"-arch={arch}", "-I", str(kernels.HERE), "-o", str(out), str(source)], check=True)
        return oldest(out.read_text(), arch)


def oldest(text: str, arch: str) -> str:
    """The text with the oldest `.version` that ptxas takes, without comments."""
    text = re.sub(r"(?m)^\s*//.*\n|^\s*\n", "", text)
    for version in VERSIONS:
        tried = re.sub(r"(?m)^\.version .*$", f".version {version}", text)
        done = subprocess.run(
            ["ptxas", f"-arch={arch}", "-O0", "-o", "/dev/null", "-"], input=tried, capture_output=True, text=True, check=False
        )
        if not done.returncode:
            return tried
    raise SystemExit(f"ptxas takes no version of a kernel for {arch}: {done.stderr[-400:]}")


def write(arch: str) -> None:
    """Write one architecture's archive; the same kernels give the same bytes."""
    settings.arch = arch  # what a card lacks is left out of the text
    said = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    by = next(f"nvcc {line.split('V')[-1]}" for line in said.splitlines() if "release" in line)
    sources = {name: text() for name, text in kernels_of(arch).items()}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        made = dict(zip(sources, pool.map(lambda n: ptx(n, sources[n], arch), sources), strict=True))
    files = {f"{kernels.digest(sources[name], arch)}.ptx": made[name] for name in sources} | {f"{kernels.BY}.txt": by}
    kernels.archive(arch).parent.mkdir(exist_ok=True)
    with tarfile.open(kernels.archive(arch), "w:xz", preset=9) as out:
        for file in sorted(files):
            data = files[file].encode()
            about = tarfile.TarInfo(file)
            about.size = len(data)
            out.addfile(about, io.BytesIO(data))
    print(
        f"{kernels.archive(arch)}: {len(made)} kernels, {kernels.archive(arch).stat().st_size:,} bytes, .version {sorted({re.findall(r'.version (.*)', t)[0] for t in made.values()})}"
    )


if __name__ == "__main__":
    for wanted in sys.argv[1:] or ARCHS:
        write(wanted)
