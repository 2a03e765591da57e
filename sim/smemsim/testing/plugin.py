"""The pytest plugin: golden traces and scenario files as tests, fixtures, a virtual GPU, `--smemsim-hardware`.

In the configuration of pytest (pyproject.toml, pytest.ini):

    smemsim_golden = golden                 # folders with traces and launches: each manifest.json, launch.toml and launch.json below them is a test
    smemsim_scenarios = *.smem.toml *.smem.json     # scenario files: each is a test (this is the default)

A trace passes if the model does what the GPU did. A launch passes if `smemsim run` returns 0. A scenario passes if
`smemsim.check` finds no trap and no wrong numbers, or with `[expect]` exactly the named codes. Unmodelled behaviour,
and a scenario without `meant`, is skipped with the reason.

Fixtures: `smemsim_replay`, `smemsim_check`, `smemsim_recorder`. Tests with the marker `smemsim_hardware` need a GPU.
They run with `--smemsim-hardware`.

With `--smemsim-gpu sm_100a` torch's "cuda" and Triton's driver are a virtual B200. A test whose kernels have findings
fails. With `--smemsim-on-finding collect` they are printed at the end instead. With `--smemsim-report DIR` a page of
all launches is written.

The packages numpy and numba are imported only when a test needs them.
"""

from __future__ import annotations

import fnmatch
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from smemsim.base.errors import InputError, SmemsimError, Unmodelled
from smemsim.base.files import read_bytes
from smemsim.base.terminal import visible
from smemsim.core.finding import headline_of, messages_of

if TYPE_CHECKING:
    from smemsim.diagnosis.report import Report
    from smemsim.evidence.replay import SuiteReport
    from smemsim.testing.recorder import Recorder

__all__ = ["HardwareItem", "LaunchItem", "LaunchTest", "ReplayItem", "ScenarioFile", "ScenarioItem", "TraceFile"]


LAUNCHES = ("launch.toml", "launch.json")  # as smemsim.evidence.launches has them
MANIFEST = "manifest.json"  # as smemsim.evidence.format has it, which needs numpy
MOST_MANIFEST = 1 << 26  # bytes
UNMODELLED = 3  # exit code of smemsim
HARDWARE = "smemsim_hardware"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option and the two settings."""
    group = parser.getgroup("smemsim", "golden traces and scenarios (smemsim)")
    group.addoption(
        "--smemsim-hardware",
        action="store_true",
        help="run the kernels of recorded traces again, and tests marked smemsim_hardware, on the GPU at hand (needs smemsim[cuda]); skipped with the reason "
        "where there is none",
    )
    group.addoption(
        "--smemsim-gpu",
        metavar="ARCH",
        help="run tests for a GPU on a virtual one: sm_90a is an H200, sm_100a a B200, 'RTX 5090' by its name (torch, Triton)",
    )
    group.addoption(
        "--smemsim-on-finding", choices=["raise", "warn", "collect"], default="raise",
        help="findings in kernels fail the test (raise, the default), are shown with it (warn), or told at the end (collect)",
    )  # fmt: skip
    group.addoption(
        "--smemsim-strict",
        action="store_true",
        help="with --smemsim-gpu: remarks about documented rules that the kernel breaks count as findings",
    )
    group.addoption(
        "--smemsim-counters",
        action="store_true",
        help="with --smemsim-gpu: count what each line of a launch costs, for the summary and the report",
    )
    group.addoption(
        "--smemsim-pipeline",
        action="store_true",
        help="with --smemsim-gpu: judge the rings of stages of each launch, for the summary, and draw them in the report",
    )
    group.addoption(
        "--smemsim-ctas", metavar="sample",
        help="with --smemsim-gpu: run these CTAs of every grid (0-3), or those that stand for it (sample); a test that fails by itself on such partial "
        "outputs is skipped",
    )  # fmt: skip
    group.addoption("--smemsim-report", metavar="DIR", type=pathlib.Path, help="write a page of all launches of the session")
    parser.addini(
        "smemsim_golden",
        "folders with golden traces, relative to this file; every folder below them that holds manifest.json and data.npz (as smemsim.testing.recorder "
        "writes them) is a test: the model replays it. Also looked into when pytest is given no path of its own",
        type="paths",
        default=[],
    )
    parser.addini(
        "smemsim_scenarios",
        "patterns of names: each such file in a folder that pytest looks into is a test, as smemsim check does it. Default: *.smem.toml *.smem.json",
        type="args",
        default=["*.smem.toml", "*.smem.json"],
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Let torch and Triton find the virtual GPU before any file of tests is imported."""
    options = early_config.known_args_namespace
    if options.smemsim_gpu:
        from smemsim.testing.gpu import begin

        begin(early_config)
        return
    for name in ("counters", "pipeline"):
        if getattr(options, f"smemsim_{name}"):
            raise pytest.UsageError(f"--smemsim-{name}: needs a virtual GPU; add --smemsim-gpu sm_90a")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker. Collect the folders of traces if pytest has no paths on its command line."""
    config.addinivalue_line("markers", f"{HARDWARE}: needs a GPU; runs with --smemsim-hardware only")
    missing = [folder for folder in _golden(config) if not folder.is_dir()]
    if missing:
        raise pytest.UsageError(
            f"smemsim_golden: {missing[0]} is not a folder; name one that holds traces, relative to the configuration file"
        )
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        return
    for folder in _golden(config):
        if not any(next(folder.rglob(name), None) for name in (MANIFEST, *LAUNCHES)):
            told = f"smemsim_golden: {folder} holds neither a trace ({MANIFEST}) nor a launch ({' or '.join(LAUNCHES)})"
            config.issue_config_time_warning(pytest.PytestConfigWarning(told), stacklevel=2)
    begun = [pathlib.Path(config.invocation_params.dir, arg.partition("::")[0]).resolve() for arg in config.args]
    config.args += [str(folder) for folder in _golden(config) if not any(folder.is_relative_to(root) for root in begun)]


def _golden(config: pytest.Config) -> list[pathlib.Path]:
    return [pathlib.Path(folder).resolve() for folder in config.getini("smemsim_golden")]


def pytest_collect_file(file_path: pathlib.Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A manifest below a folder of traces, or a file with a scenario's name."""
    config = parent.config
    if file_path.name == MANIFEST and any(file_path.resolve().is_relative_to(folder) for folder in _golden(config)):
        return TraceFile.from_parent(parent, path=file_path)
    if file_path.name in LAUNCHES and any(file_path.resolve().is_relative_to(folder) for folder in _golden(config)):
        return None if _of_a_trace(file_path) else LaunchTest.from_parent(parent, path=file_path)
    if any(fnmatch.fnmatch(file_path.name, pattern) for pattern in config.getini("smemsim_scenarios")):
        return ScenarioFile.from_parent(parent, path=file_path)
    return None


def _of_a_trace(path: pathlib.Path) -> bool:
    """Is the launch one of a recorded trace, whose replay runs it?"""
    return any((folder / MANIFEST).exists() for folder in path.parents[:3])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs a GPU unless it was asked for and is there."""
    marked = [item for item in items if item.get_closest_marker(HARDWARE)]
    if not marked:
        return
    reason = "needs a GPU: run with --smemsim-hardware"
    if config.getoption("--smemsim-hardware"):
        reason = _why_no_gpu()
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))


def _why_no_gpu() -> str:
    from smemsim.testing.recorder import why_no_gpu

    return why_no_gpu()


class TraceFile(pytest.File):
    """The manifest of a trace; nothing of it is read before its tests run."""

    def collect(self) -> Iterable[pytest.Item]:
        """The replay and, for traces that hold their kernel, the run on hardware."""
        yield ReplayItem.from_parent(self, name="replay")
        if self.config.getoption("--smemsim-hardware"):
            item = HardwareItem.from_parent(self, name="hardware")
            item.add_marker(HARDWARE)
            if (kind := _kind(self.path)) not in (None, "smem_dump"):
                item.add_marker(
                    pytest.mark.skip(reason=f"a {kind} trace does not hold its kernel; smem_dump traces do, and can be run again")
                )
            yield item


def _kind(path: pathlib.Path) -> str | None:
    """The kind of a trace; None where the manifest says none, which its replay reports."""
    try:
        return str(json.loads(read_bytes(path, MOST_MANIFEST).decode("utf-8"))["kind"])
    except (InputError, OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


class _Item(pytest.Item):
    """A test without Python code of its own: what it says about a failure is a report, not a traceback."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *args: Any, **more: Any) -> Any:
        """Sentences; a traceback only of what smemsim did not raise on purpose."""
        if isinstance(excinfo.value, (SmemsimError, AssertionError)):
            return visible(str(excinfo.value))
        return super().repr_failure(excinfo, *args, **more)

    def reportinfo(self) -> tuple[pathlib.Path, int, str]:
        """The file, and the test's name."""
        return self.path, 0, f"{self.path.parent.name if self.path.name == MANIFEST else self.path.name}: {self.name}"


class ReplayItem(_Item):
    """Model against trace."""

    def runtest(self) -> None:
        """Replay every case."""
        _held(self.path.parent)


class HardwareItem(_Item):
    """The recorded kernel on the GPU at hand, against trace and model."""

    def runtest(self) -> None:
        """Run every case again."""
        from smemsim.evidence.format import load_suite
        from smemsim.testing.recorder import Gpu, Recorder, differences

        if Gpu.ended:
            pytest.skip("a case of an earlier trace trapped, which ends CUDA for this process; run this trace by itself")
        suite = load_suite(self.path.parent)
        if not len(suite.arrays.get("kernel_image", ())):
            pytest.skip("the trace has no kernel image; record it again to run it")
        recorder = Recorder()
        if suite.arch != recorder.arch:
            pytest.skip(f"recorded on {suite.arch}, the GPU here is {recorder.arch}")
        trapped = suite.arrays["status"] != 0
        # one trap at most, the last
        cases = sorted(range(len(suite)), key=lambda case: bool(trapped[case]))[: int((~trapped).sum()) + 1]
        found = [text for case in cases if (text := differences(suite, case, recorder.rerun(suite, case)))]
        if found:
            raise AssertionError(f"{suite.name}: {len(found)} of {len(suite)} cases no longer give what was recorded\n{found[0]}")


class ScenarioFile(pytest.File):
    """A scenario file."""

    def collect(self) -> Iterable[pytest.Item]:
        """One test."""
        yield ScenarioItem.from_parent(self, name="check")


class ScenarioItem(_Item):
    """`smemsim check` of a file."""

    def runtest(self) -> None:
        """Check it."""
        _checked(self.path)


class LaunchTest(pytest.File):
    """A launch file in a folder of its own."""

    def collect(self) -> Iterable[pytest.Item]:
        """One test."""
        yield LaunchItem.from_parent(self, name="run")


class LaunchItem(_Item):
    """`smemsim run` of a launch file: no findings, and every expected output."""

    def runtest(self) -> None:
        """Run it."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "smemsim", "run", "--json", str(self.path)], capture_output=True, text=True, check=False
        )
        if done.returncode == UNMODELLED:
            pytest.skip(done.stderr.strip())
        if done.returncode:
            raise AssertionError("\n".join(filter(None, (*_found(done.stdout), done.stderr.strip()))))


def _found(printed: str) -> list[str]:
    """What `smemsim run --json` found: first a line for pytest's summary, then the findings and the outputs that
    differ.
    """
    if not printed:
        return []
    run = json.loads(printed)
    texts = messages_of(run["findings"])
    for output in run["outputs"]:
        texts += [f"different: {output['difference']}"] if output["difference"] else []
        texts += [f"      {output['name']}: {output['explanation']}"] if output["explanation"] else []
    return [*(headline_of(found) for found in run["findings"][:1]), *texts]


def _held(path: str | pathlib.Path, case: int | None = None) -> list[SuiteReport]:
    """The reports of every trace at a path; AssertionError for differences, a skip for what is not modelled."""
    from smemsim.evidence.replay import replay

    reports = replay(path, case=case)
    if any(report.differing for report in reports):
        raise AssertionError("\n".join(report.text() for report in reports if report.differing))
    if unknown := [report for report in reports if report.unmodelled]:
        pytest.skip(visible(unknown[0].text()))
    return reports


def _checked(scenario: Any) -> Report:
    """The report of a scenario; AssertionError where it is not as it should be, a skip for what is not modelled."""
    from smemsim.diagnosis.check import check

    try:
        report = check(scenario)
    except Unmodelled as e:
        pytest.skip(visible(f"not modelled: {e}"))
    if not report.ok:
        raise AssertionError(report.text())
    if report.unchecked and not report.expected and not report.findings and not (report.machine and report.machine.seen):
        pytest.skip(visible(f"nothing was compared: not looked at: {', '.join(report.unchecked)}"))
    return report


def _at(path: Any, config: pytest.Config) -> Any:
    """A relative path counts from where pytest was called or, where there is nothing, from the folder of the
    configuration file.
    """
    if not isinstance(path, (str, pathlib.Path)) or pathlib.Path(path).exists():
        return path
    below = config.rootpath / path
    return below if below.exists() else path


@pytest.fixture
def smemsim_replay(request: pytest.FixtureRequest) -> Callable[..., list[SuiteReport]]:
    """`smemsim_replay(path, case=None)`: the model does what every trace at or below the path recorded; its reports."""
    return lambda path, case=None: _held(_at(path, request.config), case)


@pytest.fixture
def smemsim_check(request: pytest.FixtureRequest) -> Callable[[Any], Report]:
    """`smemsim_check(scenario)`: a path, a dict or a `Scenario` has no trap and no wrong numbers, or exactly what it
    expects; its report.
    """
    return lambda scenario: _checked(_at(scenario, request.config))


@pytest.fixture
def smemsim_recorder(request: pytest.FixtureRequest) -> Recorder:
    """A `smemsim.testing.recorder.Recorder`; the test is skipped without --smemsim-hardware or a GPU."""
    if not request.config.getoption("--smemsim-hardware"):
        pytest.skip("needs a GPU: run with --smemsim-hardware")
    if reason := _why_no_gpu():
        pytest.skip(reason)
    from smemsim.testing.recorder import Recorder

    return Recorder()
