"""The house itself: layers, lint, what lies where. Types are `nox -s lint`'s: mypy reads the whole package again, which
takes as long as a tenth of the tests.
"""

import ast
import graphlib
import json
import pathlib
import re
import subprocess
import sys
import tomllib

import grimp
import pytest

from places import ROOT
from smemsim.run.isa.registry import builders
from strategies import is_night

CHECKS = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "layers": ["lint-imports"],
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_house_is_clean(check):
    if not is_night():
        pytest.skip("by night, and in .ci/lint")
    command = CHECKS[check]
    tool = pathlib.Path(sys.executable).parent / command[0]  # beside the interpreter, or on the PATH
    done = subprocess.run([str(tool) if tool.exists() else command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint_has_one_list_of_commands():
    """`nox -s lint`, the job of CI and the hooks before a commit: each runs what is tested here, and mypy."""
    nox, ci = (ROOT / "noxfile.py").read_text(), (ROOT / ".ci" / "lint").read_text().splitlines()
    wanted = [*CHECKS.values(), ["mypy"]]
    assert [command for command in wanted if " ".join(command) not in ci] == []
    assert [command for command in wanted if f"session.run({', '.join(map(json.dumps, command))})" not in nox] == []
    assert "run: .ci/lint" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert {"ruff-check", "ruff-format", "lint-imports", "mypy"} <= set(re.findall(r"(?:id|entry): ([\w-]+)", hooks))


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return listed.stdout.split()


def test_the_top_level_holds_only_what_it_should():
    top = {name.split("/")[0] for name in tracked()}
    visitors_look_for = {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "SECURITY.md", "noxfile.py"}
    folders = {"sim", "golden", "tests", "tools", "docs"}
    assert {name for name in top if not name.startswith(".")} <= {"pyproject.toml"} | visitors_look_for | folders


def statements(path):
    """Every statement of a file, also those in others: no expression, which are most of a syntax tree."""
    found = [*ast.parse(path.read_text()).body]
    for one in found:
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            found += getattr(one, name, ())
    return found


def module_imports(*, of_types=True):
    """{module: the modules of smemsim that it imports anywhere in it}: lazily, inside functions, and with `of_types`
    for a type checker alone too.
    """
    graph = grimp.build_graph("smemsim", cache_dir=None, exclude_type_checking_imports=not of_types)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def test_what_is_unreleased_can_be_read():
    """A line a change, as a user notices it; figures, causes and names of programs are told on the pages that they
    belong to.
    """
    unreleased = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("## Unreleased")[2].partition("\n## ")[0]
    assert len(unreleased) < 15_000, (
        f"{len(unreleased)} characters are unreleased in CHANGELOG.md. If a merge brought old lines back: "
        "`git checkout main -- CHANGELOG.md`, and your own lines again, short, under Added, Changed or Fixed"
    )


def test_the_folders_of_execution_import_one_way():
    run = ROOT / "sim" / "smemsim" / "run"
    folders = {p.parent.name for p in (*run.glob("*/__init__.py"), *run.glob("isa/*/__init__.py"))} - {"isa", "engine", "procs"}
    needs = {name: set() for name in folders}
    for module, imported in module_imports(of_types=False).items():
        for other in imported:
            a, b = (re.match(r"smemsim\.run\.(?:isa\.)?(\w+)", name) for name in (module, other))
            if a and b and {a[1], b[1]} <= folders and a[1] != b[1]:
                needs[a[1]].add(b[1])
    assert needs["copies"] >= {"barriers"}, "nothing was read"
    graphlib.TopologicalSorter(needs).prepare()  # CycleError names the folders


def test_no_module_imports_itself_through_others():
    graph = module_imports()
    assert "smemsim.show.dot" in graph["smemsim.cli.dot"], "lazy imports were not read"
    assert "smemsim.run.engine.launch" in graph["smemsim.diagnosis.explained_output"], "imports of types were not read"
    graphlib.TopologicalSorter(graph).prepare()  # CycleError names the modules


def test_every_folder_of_execution_has_a_topic_and_modules():
    run = ROOT / "sim" / "smemsim" / "run"
    for path in (*run.glob("*/"), *run.glob("isa/*/")):
        if path.name != "__pycache__":
            assert len(list(path.glob("*.py"))) > 1
            assert (path / "__init__.py").read_text().startswith('"""')


def test_an_instruction_is_known_by_its_file_alone():
    """No list names the modules: those with builders are found."""
    folder = ROOT / "sim" / "smemsim"
    written = {
        ".".join(("smemsim", *p.relative_to(folder).with_suffix("").parts))
        for p in (folder / "run").rglob("*.py")
        if re.search(r"^@implements\(", p.read_text(), re.MULTILINE)
    }
    assert {"smemsim.run.isa.alu.floats", "smemsim.run.isa.matrix.wgmma"} < written
    # of what is refused
    assert written == {builder.__module__ for builder in builders().values()} - {"smemsim.run.isa.registry"}


def test_hardware_numbers_of_the_descriptor_stand_in_the_spec_only():
    """No module outside spec/ knows a bit position of the descriptor, but for the capture kit: its words are made
    without the model.
    """
    pattern = re.compile(r"(<<|>>)\s*(46|49|52|61|62)\b|0x3FFF\b", re.IGNORECASE)
    found = [str(p) for p in (ROOT / "sim").rglob("*.py") if not {"spec", "capture"} & {*p.parts} and pattern.search(p.read_text())]
    assert found == []


def test_ci_runs_the_readmes_test_command():
    readme = (ROOT / "README.md").read_text()
    commands = re.findall(r"^    (pip install -e .*)$", readme, re.MULTILINE)
    assert len(commands) == 2
    assert commands[0].endswith("smemsim replay golden/")
    assert re.search(r"pip install -e .*pytest", commands[1])
    assert "README.md" in (ROOT / ".ci" / "run").read_text()


def test_the_core_depends_on_five_libraries_and_a_backport():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=\[]", d)[0] for d in project["dependencies"] if "python_version <" not in d}
    assert names == {"numpy", "numba", "click", "rich", "lz4"}
    assert [d.split(">")[0] for d in project["dependencies"] if "python_version <" in d] == ["backports.zstd"]


def test_golden_stays_small():
    size = sum(p.stat().st_size for p in (ROOT / "golden").rglob("*") if p.is_file())
    assert size < 30 << 20


def test_the_guide_names_files_that_are_there():
    """Every module and folder that docs/internals.md names, below sim/smemsim or the top level."""
    guide = (ROOT / "docs" / "internals.md").read_text()
    named = {name for name in re.findall(r"`([\w/]+(?:\.py|/))`", guide) if "/" in name}
    missing = [name for name in named if not (ROOT / "sim" / "smemsim" / name).exists() and not (ROOT / name).exists()]
    assert named
    assert missing == []


# What tests import of smemsim: public names, a package's door, the modules that state formulas and tables. And these,
# which the list may only lose:
INNER = {
    "smemsim.campaign.interpreted",
    "smemsim.campaign.oracles.cute_descriptors",
    "smemsim.campaign.oracles.cute_layouts",
    "smemsim.campaign.oracles.differential",
    "smemsim.campaign.oracles.mmasim",
    "smemsim.campaign.oracles.mmasim_sync",
    "smemsim.campaign.oracles.numpy_formulas",
    "smemsim.campaign.oracles.triton_layouts",
    "smemsim.campaign.report",
    "smemsim.campaign.spaces.arithmetic",
    "smemsim.campaign.spaces.boxes",
    "smemsim.campaign.spaces.cohorts",
    "smemsim.campaign.spaces.concurrent",
    "smemsim.campaign.spaces.concurrent_chains",
    "smemsim.campaign.spaces.faults",
    "smemsim.campaign.spaces.idesc",
    "smemsim.campaign.spaces.keys",
    "smemsim.campaign.spaces.paths",
    "smemsim.campaign.spaces.ptx",
    "smemsim.base.compiling.ship",
    "smemsim.campaign.spaces.plans",
    "smemsim.campaign.spaces.smem",
    "smemsim.campaign.sweep",
    "smemsim.cli.run",
    "smemsim.diagnosis.scales",
    "smemsim.evidence.kinds.common",
    "smemsim.evidence.kinds.compiled",
    "smemsim.evidence.kinds.smem_dump",
    "smemsim.evidence.kinds.tcgen05",
    "smemsim.evidence.kinds.tensor_map",
    "smemsim.evidence.kinds.tensor_memory",
    "smemsim.evidence.launches",
    "smemsim.evidence.replay",
    "smemsim.diagnosis.check",
    "smemsim.diagnosis.descriptors.find",
    "smemsim.diagnosis.numbers",
    "smemsim.diagnosis.operands.metadata",
    "smemsim.diagnosis.operands.orders",
    "smemsim.diagnosis.operands.recorded",
    "smemsim.diagnosis.operands.tiles",
    "smemsim.diagnosis.outputs",
    "smemsim.diagnosis.product",
    "smemsim.diagnosis.result.arrays",
    "smemsim.diagnosis.result.explain",
    "smemsim.diagnosis.result.sums",
    "smemsim.diagnosis.scenario",
    "smemsim.diagnosis.tile",
    "smemsim.diagnosis.pipeline_picture",
    "smemsim.core.machine.mma_sync",
    "smemsim.core.machine.tcgen05",
    "smemsim.planning.make",
    "smemsim.run.isa.alu.floats",
    "smemsim.run.engine.arrays",
    "smemsim.run.engine.device",
    "smemsim.run.engine.grid",
    "smemsim.run.lower.inline",
    "smemsim.run.engine.multiprocessors",
    "smemsim.run.engine.profile",
    "smemsim.run.isa.registry",
    "smemsim.run.origins",
    "smemsim.run.procs.shards",
    "smemsim.run.isa.threads.printing",
    "smemsim.run.sanitizer.shared_loops",
    "smemsim.run.sanitizer.operations",
    "smemsim.run.sanitizer.first",
    "smemsim.run.sanitizer.sanitizer",
    "smemsim.run.engine.wave",
    "smemsim.testing.strategies.descriptors",
    "smemsim.testing.strategies.kernels",
    "smemsim.testing.strategies.maps",
    "smemsim.virtual.alignment",
    "smemsim.virtual.benchmarks",
    "smemsim.virtual.bindings",
    "smemsim.virtual.cutedsl",
    "smemsim.virtual.exec",
    "smemsim.virtual.jax",
    "smemsim.virtual.local",
    "smemsim.virtual.proton",
    "smemsim.virtual.record",
}
KIT = "smemsim.capture."  # its tests stand in for a card
FORMULAS = (
    "smemsim.core.layout.", "smemsim.core.arithmetic.", "smemsim.core.spec.", "smemsim.core.words.", "smemsim.core.picture.",
    # and those that compute with arrays or texts, and know nothing of a launch
    *(f"smemsim.run.sanitizer.{name}" for name in ("byte_masks", "global_loops", "operation_sets", "settled_bytes", "shard_record", "strong_bytes")),
    # what an instruction costs, what a program's text says, and the words of a message
    "smemsim.run.counters.", "smemsim.run.cohort", "smemsim.run.engine.schedule", *(f"smemsim.run.lower.{name}" for name in ("cfg", "dataflow", "lane_private", "sums", "waits")), "smemsim.run.jit.constants", "smemsim.virtual.calls.wire",
    # whose library is not there where CI runs: a stand-in for it calls them
    "smemsim.virtual.torch_", "smemsim.virtual.process", "smemsim.virtual.stored",
    "smemsim.core.machine.padding", "smemsim.core.machine.stored_taint", "smemsim.core.machine.uninitialised", "smemsim.core.ptx.demangle",
    "smemsim.diagnosis.pointers", "smemsim.diagnosis.recognised", "smemsim.diagnosis.accumulators", "smemsim.diagnosis.schedules", "smemsim.diagnosis.costs", "smemsim.diagnosis.trials.candidates", "smemsim.diagnosis.progress", "smemsim.diagnosis.descriptors.shapes",
    "smemsim.diagnosis.difference.", "smemsim.diagnosis.fills", "smemsim.diagnosis.thread_tiles", "smemsim.diagnosis.explained_output", "smemsim.diagnosis.epilogue", "smemsim.diagnosis.reads", *(f"smemsim.diagnosis.operands.{name}" for name in ("boxes", "copied", "exchanged_steps", "factors", "frames", "gaps", "k_slices", "never_loaded", "pairings", "places", "read", "repeated", "scaled", "steps", "sums", "thread_sums")), "smemsim.diagnosis.result.tiles", "smemsim.diagnosis.causes.cause", "smemsim.diagnosis.run_page", "smemsim.diagnosis.run_to_scenario", "smemsim.diagnosis.copies", "smemsim.diagnosis.instructions", "smemsim.diagnosis.tensors", "smemsim.diagnosis.triton", "smemsim.diagnosis.relax",
)  # fmt: skip
# Modules that other people import, and topics of one module.
SHOWN = {f"smemsim.testing.{name}" for name in ("oracles", "plugin", "recorder")} | {
    f"smemsim.{name}"
    for name in ("base.array_files", "base.budget", "base.files", "core.finding", "base.processes", "base.store", "core.tables", "triton")
}


def is_module(name):
    path = ROOT / "sim" / pathlib.Path(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def imported_by_tests():
    """Every module of smemsim that a test imports, or imports from."""
    for path in (ROOT / "tests").rglob("*.py"):
        for node in statements(path):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield from (f"{node.module}.{a.name}" if is_module(f"{node.module}.{a.name}") else node.module for a in node.names)


def test_tests_go_through_doors():
    folder = ROOT / "sim"
    modules = {name for name in imported_by_tests() if name.startswith("smemsim.")}
    packages = {name for name in modules if (folder / pathlib.Path(*name.split(".")) / "__init__.py").exists()}
    inner = {name for name in modules - packages - SHOWN if not name.startswith((*FORMULAS, KIT))}
    assert inner <= INNER, f"{', '.join(sorted(inner - INNER))}: import the public name, or what the package's __init__ shows"
    assert inner == INNER, f"{', '.join(sorted(INNER - inner))}: no test needs it any more, take it out of the list"


# ---- prose in the code: at most 120 columns; code has 140 (ruff)

PROSE = 120
COMMENT = re.compile(r"(^\s*|  )# [^\"']*$")
PRAGMA = re.compile(r"# (noqa|type:|fmt:|isort:|pragma)")


def docstrings(lines):
    """(number, column of the docstring, line) of the lines of docstrings; other strings of several lines are none."""
    column = None
    for n, line in enumerate(lines, 1):
        own = len(line) - len(line.lstrip())
        if line.count('"""') % 2:
            begins = column is None and line.lstrip().startswith(('"""', 'r"""'))
            if column is not None:
                yield n, column, line
            column = own if begins else -1 if column is None else None
        if column is not None or (line.lstrip().startswith('"""') and "\\n" not in line):
            yield n, own if column is None else column, line


def long_prose(path):
    """The numbers of the lines of docstrings and comments that are too long. Examples, tables and samples of code in
    docstrings are none, nor are comments between `# fmt: off` and `# fmt: on`.
    """
    lines = path.read_text().splitlines()
    if all(len(line) <= PROSE for line in lines):
        return
    is_table, is_example, inside = False, False, {n for n, _, _ in docstrings(lines)}
    for n, line in enumerate(lines, 1):
        is_table = ("# fmt: off" in line or is_table) and "# fmt: on" not in line
        if len(line) > PROSE and n not in inside and not is_table and COMMENT.search(line) and not PRAGMA.search(line):
            yield n
    for n, column, line in docstrings(lines):
        is_example = line.lstrip().startswith(">>>") or (is_example and bool(line.strip()))
        is_sample = line.lstrip().startswith(("|", "smemsim ")) or line.startswith(" " * (column + 4)) or re.search(r"\S {3,}\S", line)
        if len(line) > PROSE and column >= 0 and not is_example and not is_sample:
            yield n


@pytest.mark.parametrize("folder", ["sim", "tools"])
def test_prose_in_the_code_can_be_read(folder):
    found = [f"{path.relative_to(ROOT)}:{n}" for path in sorted((ROOT / folder).rglob("*.py")) for n in long_prose(path)]
    assert found == []
