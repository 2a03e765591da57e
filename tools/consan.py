"""Triton's ConSan suite on the virtual GPU, without its instrumentation: which planted faults are found, which clean
twins are alarmed falsely.

    python -m tools.consan CHECKOUT [--arch sm_90a] [-k EXPRESSION]

CHECKOUT is one of Triton; its `python/test/gluon/test_consan.py` is run as it is, but for names that Triton has changed
since, each test in this process and with nothing instrumented. A test whose parameters plant a fault (FAILURE and its
like are true), or that expects a failure whatever they are, should fail by a finding; others should pass.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile

INSTALLED = any(entry.name == "smemsim" for entry in importlib.metadata.entry_points(group="pytest11"))
PLUGINS = () if INSTALLED else ("-p", "smemsim.testing.plugin")
SUITE = pathlib.Path("python/test/gluon/test_consan.py")
RENAMED = {  # Triton 3.9 has the names on the right
    "ampere.async_copy.async_copy_global_to_shared": "ampere.async_copy.async_load",
    "tma.async_copy_shared_to_global": "tma.async_store",
}
PLUGIN = """
import json, os, pytest, re
REAL = pytest.MonkeyPatch.setenv

def setenv(self, name, value, *more):
    if name != "TRITON_INSTRUMENTATION_MODE":
        REAL(self, name, value, *more)

pytest.MonkeyPatch.setenv = setenv

@pytest.fixture(autouse=True)
def nothing_is_instrumented():
    # tests about the setting itself leave it behind where they fail
    from triton import knobs

    os.environ.pop("TRITON_INSTRUMENTATION_MODE", None)
    knobs.compilation.instrumentation_mode = ""

@pytest.fixture
def device():
    return "cuda"

@pytest.fixture
def fresh_knobs():
    pytest.skip("about Triton's own instrumentation")

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" or report.outcome == "skipped":
        params = {k: v for k, v in getattr(item, "callspec", None).params.items() if isinstance(v, (bool, str, int))} if hasattr(item, "callspec") else {}
        text = str(report.longrepr) if report.failed else ""
        with open(os.environ["CONSAN_OUT"], "a") as out:
            out.write(json.dumps({"name": item.name, "outcome": report.outcome, "params": params, "text": text[-1500:], "codes": re.findall(r"\\b[XTRDAI]\\d{3}\\b", text)}) + "\\n")
"""


def always_fail(suite: str) -> set[str]:
    """The tests of the suite's text that expect a failure whatever their parameters are."""
    functions = [node for node in ast.parse(suite).body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    texts = {node.name: ast.unparse(node) for node in functions}
    return {name for name, text in texts.items() if "assert_expected_cuda_failure" in text and "exc is None" not in text}


def is_fault(row: dict[str, object], always: set[str]) -> bool:
    """Does a test plant a fault?"""
    params = row["params"]
    assert isinstance(params, dict)
    if str(row["name"]).partition("[")[0] in always:
        return True
    # who waits for the first of two products gives the columns of the second back while it runs
    if "BAR_IDX" in params:
        return int(params["BAR_IDX"]) < 2
    missing = params.get("MISSING_BAR", "none") not in ("none", False) or params.get("MISSING_WAIT") is True
    overlaps = params.get("OVERLAP", True)
    return (
        params.get("FAILURE") is True
        or (missing and bool(overlaps))
        or bool({"EXPECT_DELTA", "USE_KIND"} & {*params})
        or params.get("WITH_INVALIDATE") is False
        # of facebookexperimental/triton: two loads into one buffer, and a wait for the first
        or params.get("WAIT_LATEST") is False
    )


def main() -> None:
    """The command line: runs the suite and prints what was found."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.consan", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("-k", default="")
    given = parser.parse_args()
    suite = given.checkout / SUITE
    if not suite.exists():
        sys.exit(f"{suite}: there is no such file; name a checkout of Triton")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "consan_plugin.py").write_text(PLUGIN)
        text = suite.read_text()
        for before, now in RENAMED.items():
            text = text.replace(before, now)
        (folder / SUITE.name).write_text(text)
        always = always_fail(text)
        paths = [str(folder), *(p for p in (str(pathlib.Path.cwd() / "sim"), os.environ.get("PYTHONPATH", "")) if p)]
        env = {**os.environ, "DISABLE_SUBPROCESS": "1", "CONSAN_OUT": str(folder / "out"), "PYTHONPATH": os.pathsep.join(paths)}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "consan_plugin",
            *PLUGINS,
            "-p",
            "no:cacheprovider",
            "--smemsim-gpu",
            given.arch,
        ]
        subprocess.run(
            [*command, *(["-k", given.k] if given.k else []), SUITE.name], cwd=folder, env=env, check=False, stdout=subprocess.DEVNULL
        )
        rows = [json.loads(line) for line in (folder / "out").read_text().splitlines()] if (folder / "out").exists() else []
    ran = [row for row in rows if row["outcome"] == "passed" or row["codes"]]
    others = [row for row in rows if row["outcome"] == "failed" and not row["codes"]]
    faults, clean = [row for row in ran if is_fault(row, always)], [row for row in ran if not is_fault(row, always)]
    missed = [row for row in faults if row["outcome"] == "passed"]
    alarmed = [row for row in clean if row["outcome"] == "failed"]
    print(
        f"{given.arch}: {len(faults) - len(missed)} of {len(faults)} faults found, {len(alarmed)} of {len(clean)} clean twins alarmed, {len(others)} ended otherwise"
    )
    for what, some in (("missed", missed), ("alarmed", alarmed), ("ended otherwise", others)):
        for row in some:
            last = row["text"].strip().splitlines()[-1:] or [""]
            print(f"  {what} {row['name']}: {last[0][:160]}")


if __name__ == "__main__":
    main()
