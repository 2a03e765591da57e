"""One suite in a process of its own: `python -m smemsim.capture.one_suite --arch sm_90a --out FOLDER SUITE`. `smemsim
capture` starts these.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Callable

from smemsim.capture import (
    bulk_suites,
    core_suites,
    dot_suites,
    mma_suites,
    pointer_suite,
    replace_suites,
    sync_suite,
    texture_suites,
    transfer_suites,
    value_suites,
    wide_suite,
)
from smemsim.capture.bench import KERNELS, Bench, build_all, run_risky, settings
from smemsim.capture.blackwell import check as blackwell_check
from smemsim.capture.blackwell import suites as blackwell_suites
from smemsim.core.spec.targets import unsupported

__all__ = ["kernels_of", "suites_of"]

Suite = Callable[[Bench, pathlib.Path], None]

HOPPER: dict[str, Suite] = (
    core_suites.SUITES
    | pointer_suite.SUITES
    | wide_suite.SUITES
    | transfer_suites.SUITES
    | value_suites.SUITES
    | replace_suites.SUITES
    | bulk_suites.SUITES
    | mma_suites.SUITES
    | dot_suites.SUITES
    | texture_suites.SUITES
)
# Suites of Hopper that run on Blackwell too, and the kernels of Hopper that they need there.
SHARED = ("encode_tiled", "encode_im2col", "tma_loads", "tma_loads_far", "tma_load_traps", "tma_stores", "tma_store_traps", "tma_values", *blackwell_suites.ALSO)  # fmt: skip
SHARED_KERNELS = ("tma_probes", "value_probe", "transfer_probe")
# the driver's encoder answers, no kernel runs
DRIVER_ALONE = ("encode_tiled", "encode_im2col", "encode_pointers", "encode_im2col_wide")


def suites_of(arch: str) -> dict[str, Suite]:
    """The suites that a card can answer, by name."""
    if arch == "sm_90a":
        return HOPPER
    if arch in ("sm_100a", "sm_103a"):
        return {name: HOPPER[name] for name in SHARED} | blackwell_suites.SUITES
    has_maps = unsupported(("cp", "async", "bulk", "tensor"), arch) is None
    drivers = {name: HOPPER[name] for name in DRIVER_ALONE if has_maps}
    return (sync_suite.SUITES if arch in sync_suite.CARDS else {}) | drivers


def kernels_of(arch: str) -> dict[str, Callable[[], str]]:
    """CUDA C++ of the kernels of a card's suites, by module."""
    if arch == "sm_90a":
        mma_suites.register()
        dot_suites.register()
        return {name: text for name, text in KERNELS.items() if name not in blackwell_suites.MODULES}
    if arch in ("sm_100a", "sm_103a"):
        return {name: KERNELS[name] for name in SHARED_KERNELS} | blackwell_suites.MODULES
    return {}


def _register(arch: str) -> None:
    """Leave the kernels of one card."""
    settings.arch = arch
    wanted = kernels_of(arch)
    KERNELS.clear()
    KERNELS.update(wanted)


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default=settings.arch, help="the card: sm_90a, sm_100a, sm_103a")
    parser.add_argument("--out", type=pathlib.Path, help="the folder that gets the suite's folder")
    parser.add_argument("--more", type=int, default=1, help="encode calls, whole wgmma: this many times as many")
    parser.add_argument("--harness-check", action="store_true", help="on Hopper: run the Blackwell kit's harness on wgmma")
    parser.add_argument("--build", action="store_true", help="compile the kernels and stop")
    parser.add_argument("--risky", nargs=2, metavar=("WHAT", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("suite", nargs="*", help="names of suites")
    asked = parser.parse_args()
    settings.more = asked.more
    _register(asked.arch)
    if asked.risky:
        run_risky(*asked.risky)
        return 0
    if asked.harness_check:
        return blackwell_check.run()
    if asked.build:
        build_all()
        return 0
    available = suites_of(asked.arch)
    if unknown := [name for name in asked.suite if name not in available]:
        parser.error(f"no such suite for {asked.arch}: {', '.join(unknown)}; there are {', '.join(available)}")
    if asked.out is None:
        parser.error("--out: name the folder that gets the traces")
    bench = Bench()
    for name in asked.suite:
        available[name](bench, asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
