"""The house itself: layers, types, lint, and a README that says what the code says."""

import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHECKS = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "layers": ["lint-imports"],
    "readme": [sys.executable, "tools/readme.py", "--check", "--but", "replay"],
}


@pytest.mark.parametrize("check", CHECKS)
def test_the_house_is_clean(check):
    command = CHECKS[check]
    tool = pathlib.Path(sys.executable).parent / command[0]  # beside the interpreter, or on the PATH
    done = subprocess.run([str(tool) if tool.exists() else command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return listed.stdout.split()


def test_the_top_level_holds_only_what_it_should():
    top = {name.split("/")[0] for name in tracked()}
    assert {name for name in top if not name.startswith(".")} == {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "sim",
        "golden",
        "tests",
        "tools",
    }


def test_modules_have_one_topic():
    lengths = {p.name: len(p.read_text().splitlines()) for p in (ROOT / "sim").rglob("*.py")}
    assert {name: n for name, n in lengths.items() if n > 450} == {}


def test_hardware_numbers_of_the_descriptor_stand_in_the_spec_only():
    """No module outside spec/ knows a bit position of the descriptor."""
    pattern = re.compile(r"(<<|>>)\s*(46|49|52|61|62)\b|0x3FFF\b", re.IGNORECASE)
    found = [str(p) for p in (ROOT / "sim").rglob("*.py") if "spec" not in p.parts and pattern.search(p.read_text())]
    assert found == []


def test_ci_runs_the_readmes_test_command():
    readme = (ROOT / "README.md").read_text()
    commands = re.findall(r"^    (pip install -e .*)$", readme, re.MULTILINE)
    assert len(commands) == 2
    assert commands[0].endswith("smemsim replay golden/")
    assert re.search(r"pip install -e .*pytest", commands[1])
    assert "README.md" in (ROOT / ".ci" / "run").read_text()


def test_the_core_depends_on_four_libraries():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=\[]", d)[0] for d in project["dependencies"]}
    assert names == {"numpy", "numba", "click", "rich"}


def test_golden_stays_small():
    size = sum(p.stat().st_size for p in (ROOT / "golden").rglob("*") if p.is_file())
    assert size < 30 << 20
