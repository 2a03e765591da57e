"""`pytest --smemsim-gpu`: other people's tests for a GPU run on the virtual one of each process, and their kernels' findings fail them."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Generator
from typing import Any

import pytest

from smemsim.errors import InputError
from smemsim.virtual import callers, process
from smemsim.virtual.policy import Launched, Policy, summary_of
from smemsim.virtual.sessions import SITE

__all__ = ["Session", "begin"]


OUTPUT = "smemsim_launches"  # what a worker of pytest-xdist hands over


def begin(config: pytest.Config) -> None:
    """Open the doors in this process and in those that tests start, and watch the session. UsageError for what is no architecture."""
    options = config.known_args_namespace
    report = options.smemsim_report
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if report is not None:
        report = pathlib.Path(report).absolute()
        options.smemsim_report = report
    try:
        policy = Policy.of(on_finding="collect", quiet=True, strict=options.smemsim_strict or None, report=report and report / worker)
        os.environ["SMEMSIM_ARCH"] = process.choose(options.smemsim_gpu, policy=policy)
    except InputError as e:
        raise pytest.UsageError(f"--smemsim-gpu: {e}") from None
    if report is not None and not worker:
        from smemsim.virtual.record import clear

        clear(policy)
    os.environ["SMEMSIM_ON_FINDING"] = options.smemsim_on_finding
    os.environ["SMEMSIM_QUIET"] = "1"
    if options.smemsim_strict:
        os.environ["SMEMSIM_STRICT"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (SITE, os.environ.get("PYTHONPATH"))))
    callers.load()  # for compiled code beside torch
    process.open_on_import()
    config.pluginmanager.register(Session(options.smemsim_on_finding, report, worker), "smemsim-gpu")


class Session:
    """Looks at what each test launched."""

    def __init__(self, on_finding: str, report: pathlib.Path | None, worker: str) -> None:
        self.on_finding, self.report, self.worker = on_finding, report, worker
        self.first = 0  # launch of the running test
        self.of_workers: list[Launched] = []

    @property
    def launches(self) -> list[Launched]:
        """All launches so far, of this process and of workers that have ended."""
        return [*self.of_workers, *(process.device().launches if process.has_device() else ())]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """A test begins with a device that works, whatever trapped before it."""
        if process.has_device():
            process.device().error = 0
            self.first = len(process.device().launches)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        """Findings fail the test, unless it fails by itself."""
        outcome = yield
        if self.on_finding == "raise" and (text := self._findings()):
            pytest.fail(f"{self._bad()[0].headline()}\n{text}", pytrace=False)
        return outcome

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: Any) -> Generator[None, Any, Any]:
        """Show findings with the test that had them."""
        report = yield
        if call.when == "call" and self.on_finding != "collect" and (text := self._findings()) and text not in str(report.longrepr):
            report.sections.append(("smemsim", text))
            _headed(report, self._bad()[0].headline())
        return report

    def _findings(self) -> str:
        return "\n".join(text_of(x) for x in self._bad())

    def _bad(self) -> list[Launched]:
        """The launches of the running test that have findings, or did not come to their end."""
        return [x for x in process.device().launches[self.first :] if not x.is_clean] if process.has_device() else []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker hands over what it launched; else write the page."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[OUTPUT] = json.dumps([dataclasses.asdict(x) for x in self.launches], default=str)
        elif self.report is not None:
            from smemsim.virtual.record import write_index

            write_index(self.report, f"pytest on {os.environ['SMEMSIM_ARCH']}", _numbered(self.launches))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker launched."""
        for x in json.loads((getattr(node, "workeroutput", None) or {}).get(OUTPUT, "[]")):
            page = f"{node.gateway.id}/{x['page']}" if x["page"] else ""
            self.of_workers.append(Launched(**{**x, "page": page}))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tell what was launched, and what was found where tests do not."""
        launches = self.launches
        terminalreporter.section("smemsim")
        if self.on_finding == "collect":
            for x in launches:
                if not x.is_clean:
                    terminalreporter.write_line(text_of(x))
        terminalreporter.write_line(f"{os.environ['SMEMSIM_ARCH']}: {summary_of(launches)}")
        if self.report is not None:
            terminalreporter.write_line(f"a page of all launches: {self.report}")


def text_of(launched: Launched) -> str:
    """A launch with findings, a line each; the launch itself comes last, since pytest's summary of failures shows the first line."""
    return "\n".join([*launched.findings(), launched.told])


def _headed(report: Any, finding: str) -> None:
    """Let pytest's summary of failures begin with the finding, where a test failed by itself: what is wrong in the kernel explains its assertion."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.failed and crash is not None:
        crash.message = f"{finding}; {crash.message}"


def _numbered(launches: list[Launched]) -> list[Launched]:
    return [dataclasses.replace(x, number=n) for n, x in enumerate(launches, 1)]
