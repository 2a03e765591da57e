"""The C libraries of the virtual GPU, built once for a machine: `libcuda.so.1`, `libcudart.so.12` and `.13`, what makes
NVRTC keep its PTX, and the names of CuTe DSL's runtime library.

A wheel may have them in `clib/built`; else the machine's C compiler makes them on first use, in the user's cache
(`SMEMSIM_CACHE_DIR`). If that folder cannot be trusted (`smemsim.base.store`) or written, each process makes its own.
Nothing of CUDA is needed.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from smemsim.base import store
from smemsim.base.errors import InputError
from smemsim.core.spec.cards import DRIVER_RELEASE
from smemsim.core.spec.cuda_errors import CUDA_CODES

__all__ = ["build", "compiler", "entry_points", "libraries"]


SOURCES = pathlib.Path(__file__).parent / "clib"
COMPILERS = ("cc", "gcc", "clang")
RUNTIMES = (12, 13)
_OF_PRODUCTS = re.compile(r"API [\w ]+?\*{0,2}(cublas\w+)\(")
_DEFINED = re.compile(r"API [\w ]+?\*{0,2}((?:__)?cu\w+|smemsim_\w+)\(")
_SUFFIXES = ("_ptsz", "_ptds")


def libraries() -> pathlib.Path:
    """The folder with the libraries; they are built where they are not there yet. InputError where nothing can build
    them.
    """
    if sys.platform != "linux":
        raise InputError("smemsim exec needs Linux: programs there find the virtual GPU as libcuda.so.1")
    made = SOURCES / "built"
    if _is_whole(made):
        return made
    return _kept() or _temporary()


def _is_whole(folder: pathlib.Path) -> bool:
    """Are all libraries there? Programs that clear caches remove files that were not used for long, one by one."""
    return all(os.path.isfile(folder / name) for name in _names())


def _names() -> list[str]:
    own = ["libcuda.so.1", "libcuda.so", "libsmemsim-audit.so", "libcute_dsl_runtime.so", "libnvidia-ml.so.1"]
    return [
        *own,
        *(f"libcudart.so.{major}" for major in RUNTIMES),
        *(name for name, _ in _stand_ins()),
        *(name for name, *_ in _products()),
    ]


def _kept() -> pathlib.Path | None:
    """The libraries in the user's cache, built if they are missing; None if that folder
    cannot be trusted or written.
    """
    base = store.base()
    if base is None:
        return None
    folder = base / f"doors-{_digest()}"
    if not _is_whole(folder) and not _built_in(base, folder):
        return None
    try:
        return folder if store.is_private(folder) and all(store.is_private(path) for path in folder.iterdir()) else None
    except OSError:
        return None


def _built_in(base: pathlib.Path, folder: pathlib.Path) -> bool:
    """Build the libraries next to their folder, then rename the result. False if that fails: the disk may be full."""
    chosen = _chosen()
    try:
        store.make(base)
        beside, damaged = (pathlib.Path(tempfile.mkdtemp(prefix=".doors-", dir=base)) / "new" for _ in range(2))
        beside.mkdir(mode=0o700)
    except OSError:
        return False
    try:
        build(beside, chosen)
        if os.path.lexists(folder) and not _is_whole(folder):
            folder.rename(damaged)
        beside.rename(folder)
    except (OSError, InputError):
        pass  # another process was faster, or nothing more can be written
    finally:
        for path in (beside, damaged):
            shutil.rmtree(path.parent, ignore_errors=True)
    return _is_whole(folder)


@functools.cache
def _temporary() -> pathlib.Path:
    """The libraries in a folder of this process alone, which goes when the process ends."""
    # TMPDIR may be a folder in which another user can put something else in its place
    for where in (None, "/tmp", "/var/tmp"):
        try:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="smemsim-", dir=where))
        except OSError:
            continue
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        if store.is_private(folder):
            build(folder, _chosen())
            return folder
    raise InputError(f"smemsim exec needs a folder for its libcuda.so.1: set {store.FOLDER} to a folder of your own ({store.unusable()})")


def _chosen() -> str:
    chosen = compiler()
    if chosen is None:
        raise InputError(
            "smemsim exec builds its libcuda.so.1 on first use, and there is no C compiler (cc, gcc, clang): install one, such as apt install gcc; "
            "Triton and pytest reach the virtual GPU without it"
        )
    return chosen


def compiler() -> str | None:
    """The machine's C compiler: CC, or the first that is there."""
    return next((path for name in (os.environ.get("CC", ""), *COMPILERS) if name and (path := shutil.which(name))), None)


def _digest() -> str:
    digest = hashlib.sha256(f"{DRIVER_RELEASE} {os.uname().machine}".encode())
    for path in sorted((*SOURCES.glob("*.[ch]"), *SOURCES.glob("*.txt"), pathlib.Path(__file__))):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def build(folder: pathlib.Path, with_compiler: str) -> None:
    """Make all libraries in a folder. InputError with what the compiler said where it fails."""
    _generate(folder)
    runtimes = []
    for major in RUNTIMES:
        name = f"libcudart.so.{major}"
        (folder / f"runtime{major}.map").write_text(f"{name} {{ global: cuda*; __cuda*; local: *; }};\n")
        own = [
            f"-DMAJOR={major}",
            str(SOURCES / "runtime.c"),
            str(folder / "runtime_generated.c"),
            f"-Wl,--version-script={folder / f'runtime{major}.map'}",
        ]
        runtimes.append((name, [*own, f"-L{folder}", "-l:libcuda.so.1", "-lpthread", "-Wl,-rpath,$ORIGIN"]))
    driver = [
        "-DDRIVER",
        *(str(SOURCES / name) for name in ("driver.c", "door.c")),
        str(folder / "driver_generated.c"),
        "-ldl",
        "-lpthread",
    ]
    others = [
        ("libsmemsim-audit.so", [str(SOURCES / "audit.c"), "-Wl,-z,now", "-ldl"]),
        ("libcute_dsl_runtime.so", [str(SOURCES / "cutedsl.c")]),
        *_stand_ins(),
    ]
    _compile(folder, with_compiler, [("libcuda.so.1", driver), *others])
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
    management = [f'-DDRIVER_RELEASE="{DRIVER_RELEASE}"', str(SOURCES / "nvml.c"), f"-L{folder}", "-l:libcuda.so.1", "-Wl,-rpath,$ORIGIN"]
    products = []
    for name, which, major in _products():
        (folder / f"{name}.map").write_text(f"{name} {{ global: cublas*; local: *; }};\n")
        own = [f"-DWHICH={which.upper()}", f"-DMAJOR={major}", str(SOURCES / "cublas.c"), str(folder / f"{which}_generated.c")]
        products.append(
            (name, [*own, f"-Wl,--version-script={folder / f'{name}.map'}", f"-L{folder}", "-l:libcuda.so.1", "-Wl,-rpath,$ORIGIN"])
        )
    # All of these are linked with the driver.
    _compile(folder, with_compiler, [*runtimes, *products, ("libnvidia-ml.so.1", management)])
    for path in folder.iterdir():
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o022)  # whatever the umask is


def _stand_ins() -> list[tuple[str, list[str]]]:
    """The libraries that replace cuDNN. A program that has loaded one finds it by its library name. The file has
    another name, so that only such a program finds it.
    """
    return [
        (
            f"libsmemsim-cudnn-{major}.so",
            [f"-DMAJOR={major}", str(SOURCES / "machine_code.c"), "-Wl,-soname,libcudnn.so.9"],
        )
        for major in RUNTIMES
    ]


def _products() -> list[tuple[str, str, int]]:
    """(name, which, major release) of what stands in for cuBLAS and cuBLASLt."""
    return [(f"{name}.so.{major}", name.removeprefix("lib").lower(), major) for major in RUNTIMES for name in ("libcublas", "libcublasLt")]


def _compile(folder: pathlib.Path, with_compiler: str, wanted: list[tuple[str, list[str]]]) -> None:
    """Make some libraries, all at once."""
    flags = ["-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-w", f"-I{SOURCES}", f"-I{folder}"]
    running = [
        subprocess.Popen(  # each is waited for below
            [with_compiler, *flags, f"-Wl,-soname,{name}", *own, "-o", str(folder / name)],  # the last soname counts
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name, own in wanted
    ]
    said = [one.communicate()[0] for one in running]
    for (name, _), one, text in zip(wanted, running, said, strict=True):
        if one.returncode:
            raise InputError(f"{name} cannot be built with {with_compiler}: {text.strip()[:2000]}")


def entry_points(which: str) -> tuple[set[str], set[str]]:
    """(entry points that are there, those that only answer 801) of the "driver" or the "runtime"."""
    there = set(_DEFINED.findall((SOURCES / f"{which}.c").read_text()))
    names = set((SOURCES / f"{which}_names.txt").read_text().split())
    base = {name for name in names for suffix in _SUFFIXES if name.endswith(suffix) and name.removesuffix(suffix) in there}
    own = {name for name in there if not name.startswith("smemsim")}
    return own | base, names - there - base


def products_missing(which: str) -> set[str]:
    """The functions of "cublas" or "cublaslt" that only answer "not supported".

    Functions that macros of `cublas.c` define are read from the macros' calls.

    >>> sorted(name for name in ("cublasSgemm_v2", "cublasZgemm_v2", "cublasGemmEx") if name in products_missing("cublas"))
    ['cublasZgemm_v2']
    """
    text = (SOURCES / "cublas.c").read_text()
    there = set(_OF_PRODUCTS.findall(text))
    there |= {f"cublas{name}" for name in re.findall(r"^(?:GEMM|BATCHED|GEMV|VECTOR|MATRIX)\((\w+)", text, re.MULTILINE)}
    there |= {f"cublas{kind}{name}" for kind, name in re.findall(r"^([SG]ET)TER\((\w+)", text, re.MULTILINE) for kind in [kind.title()]}
    there |= {f"cublas{name}{suffix}" for name in ("GemmEx", "SgemmEx", "GemmStridedBatchedEx") for suffix in ("", "_64")}
    return set((SOURCES / f"{which}_names.txt").read_text().split()) - there


def _generate(folder: pathlib.Path) -> None:
    """C for what follows from tables: error codes, stubs, the names of streams of their own for each thread, and a
    table of all names.
    """
    for which in ("cublas", "cublaslt"):
        lines = ['#include "door.h"', "int smemsim_not_there(const char *name);"]
        lines += [f'API int {name}(void) {{ return smemsim_not_there("{name}"); }}' for name in sorted(products_missing(which))]
        (folder / f"{which}_generated.c").write_text("\n".join(lines) + "\n")
    for which in ("driver", "runtime"):
        there, missing = entry_points(which)
        lines = ['#include "door.h"', "#include <string.h>"]
        # the runtime's errors are those of cudaGetLastError too
        tell = "smemsim_missing" if which == "runtime" else "smemsim_unknown"
        lines += [f"R {tell}(const char *name);", *(f'API R {name}(void) {{ return {tell}("{name}"); }}' for name in sorted(missing))]
        aliases = [(name, base) for name in sorted(there) for base in [re.sub("_pt[sd][zs]$", "", name)] if base != name]
        # A jump with all arguments as they are: an alias would have to be in the file of the function.
        lines += [f'API R {base}();\nasm(".globl {name}\\n.type {name}, @function\\n{name}: {_jump(base)}\\n");' for name, base in aliases]
        if which == "driver":
            rows = [f'{{{c.number}, {_text(c.driver)}, {_text(c.runtime)}, "{c.text}"}},' for c in CUDA_CODES.values()]
            lines += ["static const smemsim_error errors[] = {", *rows, "};"]
            lines.append(
                "API const smemsim_error *smemsim_error_of(int number) { for (unsigned n = 0; n < sizeof errors / sizeof *errors; n++) "
                "if (errors[n].number == number) return errors + n; return 0; }"
            )
            lines += [f"API R {name}();" for name in sorted(there) if name not in dict(aliases)]
            lines += [f"extern R {name}();" for name, _ in aliases]
            lines += ["static const struct { const char *name; void *at; } symbols[] = {"]
            lines += [f'{{"{name}", (void *){name}}},' for name in sorted(there | missing)]
            lines.append("};")
            lines.append(
                "API void *smemsim_symbol(const char *name) { for (unsigned n = 0; n < sizeof symbols / sizeof *symbols; n++) "
                "if (!strcmp(symbols[n].name, name)) return symbols[n].at; return 0; }"
            )
        (folder / f"{which}_generated.c").write_text("\n".join(lines) + "\n")


def _jump(base: str) -> str:
    return f"b {base}" if os.uname().machine == "aarch64" else f"jmp {base}@PLT"


def _text(name: str) -> str:
    return f'"{name}"' if name else "0"


def _list() -> None:
    for which in ("driver", "runtime"):
        there, missing = entry_points(which)
        print(
            f"# {which}: {len(there)} there\n{' '.join(sorted(there))}\n\n# {which}: {len(missing)} answer 801\n{' '.join(sorted(missing))}\n"
        )


if __name__ == "__main__":
    _list()
