"""Figures of how the engine is built: `python -m tools.structure` prints them; with `off` the first without the
sanitizer.

- Functions of smemsim that the first tensor load, tensor store and wgmma of a launch enter, with all observers and in
  the interpreter; and the conditions on the way of a tensor load to its bytes and its mbarrier.
- The classes with the most attributes, and with the most methods.
"""

from __future__ import annotations

import ast
import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

SOURCES = pathlib.Path(__file__).parents[1] / "sim" / "smemsim"
# The functions on the way of a tensor load, by their files.
WAY = {
    "run/isa/copies/tensor.py": ("_Loads.run", "_Loads.describe", "_load", "_check_alone"),
    "run/isa/asynchronous.py": ("issued_by", "described", "issue", "_take", "_because"),
    "run/isa/barriers/mbarrier.py": ("bring", "_settle", "states_of", "state_of_all", "State.gets"),
    "core/machine/owners.py": ("Owners.load",),
    "core/machine/memory.py": ("SharedMemory.boxes", "SharedMemory.load"),
}
MOST = 12  # classes that are printed


class Entered:
    """Notes the functions that the first call of a step enters."""

    def __init__(self) -> None:
        self.functions: dict[str, set[tuple[str, str]]] = {}

    def by(self, name: str, run: Any) -> Callable[..., Any]:
        """The step, noted under a name when it is called first."""

        def enter(frame: FrameType, event: str, arg: object) -> None:
            code = frame.f_code
            if event == "call" and str(SOURCES) in code.co_filename:
                self.functions[name].add((code.co_filename, code.co_name))

        def noted(*given: Any) -> Any:
            if name in self.functions:
                return run(*given)
            self.functions[name] = set()
            sys.setprofile(enter)
            try:
                return run(*given)
            finally:
                sys.setprofile(None)

        return noted


def entered(*, sanitizer: bool) -> dict[str, int]:
    """The functions entered by the first of each in Triton's product of 512 x 512 x 512 on sm_90a."""
    from smemsim.run.isa.copies import tensor
    from smemsim.run.isa.matrix import wgmma
    from tools.speeds.programs import Grown, started

    noted, before = Entered(), (tensor.build_load, tensor.build_store, wgmma._Mma.run)
    tensor.build_load = lambda i, c: noted.by("tensor load", before[0](i, c))
    tensor.build_store = lambda i, c, operation: noted.by("tensor store", before[1](i, c, operation))
    run = noted.by("wgmma", before[2])
    wgmma._Mma.run = run  # type: ignore[method-assign]
    try:
        started(Grown("triton_matmul_512", (4, 4, 1), {}).file(), sanitizer=sanitizer)
    finally:
        tensor.build_load, tensor.build_store, wgmma._Mma.run = before  # type: ignore[method-assign]
    return {name: len(functions) for name, functions in noted.functions.items()}


def conditions() -> Iterator[tuple[str, str]]:
    """Each condition (if, conditional expression) of the functions of WAY, with the function."""
    for name, functions in WAY.items():
        module = ast.parse((SOURCES / name).read_text(encoding="utf-8"))
        scopes: list[ast.Module | ast.ClassDef] = [module, *(node for node in module.body if isinstance(node, ast.ClassDef))]
        for scope in scopes:
            of = f"{scope.name}." if isinstance(scope, ast.ClassDef) else ""
            for node in scope.body:
                if isinstance(node, ast.FunctionDef) and of + node.name in functions:
                    found = (part for part in ast.walk(node) if isinstance(part, ast.If | ast.IfExp))
                    yield from ((of + node.name, ast.unparse(part.test)) for part in found)


def classes() -> Iterator[tuple[int, int, str, str]]:
    """(attributes, methods, name, file) of each class."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            fields = {part.target.id for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)}
            stored = (part for part in ast.walk(node) if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store))
            fields |= {part.attr for part in stored if isinstance(part.value, ast.Name) and part.value.id == "self"}
            methods = sum(isinstance(part, ast.FunctionDef) for part in node.body)
            yield len(fields), methods, node.name, str(path.relative_to(SOURCES))


def main() -> None:
    """Print the figures."""
    os.environ["SMEMSIM_TIERS"] = "closures"
    mode = sys.argv[1] if len(sys.argv) > 1 else "on"
    counts = ", ".join(f"{name} {count}" for name, count in entered(sanitizer=mode == "on").items())
    print(f"functions entered, sanitizer {mode}: {counts}")
    if mode == "off":
        return
    found = list(conditions())
    print(f"conditions of a tensor load: {len(found)}")
    for function, test in found:
        print(f"  {function}: {test}")
    every = list(classes())
    for title, key in (("attributes", 0), ("methods", 1)):
        print(f"most {title}:")
        for row in sorted(every, key=lambda row: -int(row[key]))[:MOST]:
            print(f"  {row[key]:3} {row[2]}  {row[3]}")


if __name__ == "__main__":
    main()
