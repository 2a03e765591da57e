"""`pytest --smemsim-gpu`: tests for a GPU run on a virtual GPU in each process, and findings of their kernels fail
them.

Child processes in any language have a device, too (`smemsim.virtual.sessions`). They write their launches into a
journal, which is read after each test.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Generator
from typing import Any

import pytest

from smemsim.base.arguments import cta_numbers
from smemsim.base.errors import InputError
from smemsim.base.files import check_folder
from smemsim.base.terminal import visible
from smemsim.virtual import callers, process
from smemsim.virtual.build import libraries
from smemsim.virtual.policy import Launched, Policy, card_of_environment, summary_of
from smemsim.virtual.sessions import Doors, environment, serve_apart
from smemsim.virtual.telling import Journal, Writer

__all__ = ["Session", "begin"]


OUTPUT, REFUSED = "smemsim_launches", "smemsim_refused"  # what a worker of pytest-xdist hands over
OPENED = "SMEMSIM_PYTEST"  # the socket that this plugin has opened


def begin(config: pytest.Config) -> None:
    """Install the virtual GPU in this process and its children, and record the session. Raises UsageError for an
    unknown architecture.
    """
    options = config.known_args_namespace
    report = options.smemsim_report
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    ctas = _numbers(options.smemsim_ctas)
    if report is not None:
        report = pathlib.Path(report).absolute()
        options.smemsim_report = report
    try:
        policy = Policy.of(
            on_finding="collect",
            quiet=True,
            strict=options.smemsim_strict or None,
            counters=options.smemsim_counters or None,
            pipeline=options.smemsim_pipeline or None,
            ctas=ctas,
            report=report and report / worker,
        )
        os.environ["SMEMSIM_ARCH"] = process.choose(options.smemsim_gpu, policy=policy)
        os.environ["SMEMSIM_CARD"] = process.card().name
    except InputError as e:
        raise pytest.UsageError(f"--smemsim-gpu: {e}") from None
    if report is not None and not worker:
        from smemsim.virtual.record import clear

        try:
            check_folder("--smemsim-report", report)
        except InputError as e:
            raise pytest.UsageError(str(e)) from None
        clear(policy)
    journal = _open_to_children(policy)
    _look_again()
    process.open_on_import()
    config.pluginmanager.register(Session(options.smemsim_on_finding, report, worker, journal), "smemsim-gpu")


def _numbers(text: str | None) -> tuple[int | str, ...] | None:
    try:
        return cta_numbers("--smemsim-ctas", text) if text else None
    except InputError as e:
        raise pytest.UsageError(str(e)) from None


def _open_to_children(policy: Policy) -> Journal | None:
    """Let the processes that tests start find the device. Returns the report of these processes, None under
    `smemsim exec`, which gets it.
    """
    given = os.environ.get("SMEMSIM_SOCKET")
    if sys.platform != "linux":
        return None  # nor has this process one
    if given and given != os.environ.get(OPENED):  # a worker of pytest-xdist has that of its controller
        callers.load()
        return None
    try:
        folder = libraries()
    except InputError:  # there is no C compiler: Python finds the device nevertheless
        folder = None
    doors, journal = Doors.open(), Journal()
    variables = environment(folder, doors.name, os.environ["SMEMSIM_ARCH"], policy, card_of_environment())
    serve_apart(doors, journal, variables)
    doors.close()  # the other process has them
    os.environ.update({**variables, OPENED: doors.name, "SMEMSIM_FIRST": str(os.getpid())})
    callers.load()
    process.tell_to(_OfForks(journal.descriptor))
    return journal


def _look_again() -> None:
    """Have numba look for a driver, for which it looks when it is imported: pytest does that before any plugin where
    `filterwarnings` names its classes.
    """
    module = sys.modules.get("numba.cuda.cudadrv.driver")
    if module is not None and module.driver.initialization_error is not None:
        module.driver.__init__()


class _OfForks(Writer):
    """Tells of the launches of this process's forks; its own are known."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._own = os.getpid()

    def _write(self, said: dict[str, Any]) -> bool:
        if os.getpid() == self._own:
            return False
        self.who = f"{os.getpid()}, a fork of {self._own}"
        return super()._write(said)


class Session:
    """Looks at what each test launched, and the processes that it started."""

    def __init__(self, on_finding: str, report: pathlib.Path | None, worker: str, journal: Journal | None) -> None:
        self.on_finding, self.report, self.worker, self.journal = on_finding, report, worker, journal
        # launches of the running test: of this process, of its children; earlier ones that were reported again
        self.first = (0, 0, 0)
        self.of_children: list[Launched] = []
        self.of_workers: list[Launched] = []
        self.refused: list[str] = []  # why code of children was not simulated
        self.no_page = ""  # why the page of all launches could not be written

    @property
    def launches(self) -> list[Launched]:
        """All launches so far: of workers that have ended, of this process, of its children."""
        self._listen()
        return [*self.of_workers, *self._own(), *self.of_children]

    def _own(self) -> list[Launched]:
        return process.device().launches if process.has_device() else []

    def _again(self) -> list[Launched]:
        return process.device().launcher.again if process.has_device() else []

    def _listen(self) -> None:
        """Read the reports of child processes. A launch is reported before its call returns."""
        if self.journal is not None:
            news = self.journal.read()
            self.of_children += [Launched(**x) for x in news.launches]
            self.refused += news.refused

    def _not_simulated(self) -> list[str]:
        """Why code of children was not simulated, each reason once; launches of theirs that had begun and were never
        over.
        """
        self._listen()
        cut = self.journal.running.values() if self.journal is not None else ()
        return list(dict.fromkeys([*self.refused, *(f"launch {name} was not over when its process ended" for name in cut)]))

    def _begin(self) -> None:
        """Record launches from now on."""
        self._listen()
        self.first = (len(self._own()), len(self.of_children), len(self._again()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """A test begins with a device that works, whatever trapped before it."""
        if process.has_device():
            process.device().error = 0
        callers.renew()
        self._begin()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        """Findings fail the test, unless it fails by itself. One whose launches ran in part has compared partial
        outputs: that it fails by itself says nothing.
        """
        try:
            outcome = yield
        except AssertionError as e:
            self._fail()
            if partial := [x for x in self._launched() if x.is_partial]:
                first = str(e).partition("\n")[0]
                pytest.skip(
                    f"{len(partial)} launches ran in part (--smemsim-ctas), so that outputs are partial; no findings; the test says: {first}"
                )
            raise
        self._fail()
        return outcome

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, Any, Any]:
        """Findings of what fixtures launch at their end are errors."""
        self._begin()
        outcome = yield
        self._fail()
        return outcome

    def _fail(self) -> None:
        if self.on_finding == "raise" and (text := self._findings()):
            pytest.fail(f"{visible(self._bad()[0].headline())}\n{text}", pytrace=False)
        if held := [x for x in self._launched() if x.held_up]:
            pytest.skip(f"{held[0].name} cannot be run in part (--smemsim-ctas): {held[0].held_up}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: Any) -> Generator[None, Any, Any]:
        """Show findings with the test that had them."""
        report = yield
        is_shown = call.when == "call" or report.failed
        if is_shown and self.on_finding != "collect" and (text := self._findings()) and text not in str(report.longrepr):
            report.sections.append(("smemsim", text))
            _headed(report, visible(self._bad()[0].headline()))
        return report

    def _findings(self) -> str:
        return visible("\n".join(text_of(x) for x in self._bad()))

    def _bad(self) -> list[Launched]:
        """The launches of the running test that have findings, or did not come to their end. Those that wait for CTAs
        that were left out are none of them.
        """
        return [x for x in self._launched() if not x.is_clean and not (x.held_up and x.is_fine)]

    def _launched(self) -> list[Launched]:
        """The launches of the running test."""
        self._listen()
        own, of_children, again = self.first
        mine = self._own()[own:]
        earlier = [x for x in self._again()[again:] if all(x is not other for other in mine)]
        return [*earlier, *mine, *self.of_children[of_children:]]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker passes its launches on. Else write the page."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[OUTPUT] = json.dumps([x.fields() for x in self.launches], default=str)
            output[REFUSED] = json.dumps(self._not_simulated())
        elif self.report is not None:
            from smemsim.virtual.record import write_index

            try:
                write_index(self.report, f"pytest on {os.environ['SMEMSIM_ARCH']}", _numbered(self.launches))
            except InputError as e:  # a full disk
                self.no_page = str(e)
                session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker launched."""
        output = getattr(node, "workeroutput", None) or {}
        self.refused += json.loads(output.get(REFUSED, "[]"))
        for x in json.loads(output.get(OUTPUT, "[]")):
            page = f"{node.gateway.id}/{x['page']}" if x["page"] else ""
            self.of_workers.append(Launched(**{**x, "page": page}))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Tell what was launched, and what was found where tests do not."""
        launches = self.launches
        terminalreporter.section("smemsim")
        if self.on_finding == "collect":
            for x in launches:
                if not x.is_clean:
                    terminalreporter.write_line(visible(text_of(x)))
        for costs, names in _by_costs(launches).items():
            terminalreporter.write_line(visible(f"{', '.join(names)}\n{costs}"))
        for why in self._not_simulated():
            terminalreporter.write_line(visible(f"not simulated: {why}"))
        terminalreporter.write_line(f"{os.environ['SMEMSIM_ARCH']}: {summary_of(launches)}")
        if partial := sum(x.is_partial for x in launches):
            terminalreporter.write_line(
                f"{partial} launches ran in part (--smemsim-ctas): outputs are partial, and races with CTAs that were left out are not checked"
            )
        if self.report is not None:
            terminalreporter.write_line(self.no_page or f"a page of all launches: {self.report}")


def _by_costs(launches: list[Launched]) -> dict[str, list[str]]:
    """The counters and rings of launches, once for those that cost the same, with the names of their kernels."""
    found: dict[str, list[str]] = {}
    for x in launches:
        if x.costs and x.name not in found.setdefault(x.costs, []):
            found[x.costs].append(x.name)
    return found


def text_of(launched: Launched) -> str:
    """A launch with findings, a line each; the launch itself comes last, since pytest's summary of failures shows the
    first line.
    """
    return "\n".join([*launched.findings(), launched.told])


def _headed(report: Any, finding: str) -> None:
    """Let pytest's summary line start with the finding if a test failed by itself: the kernel's fault explains the
    assertion.
    """
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.failed and crash is not None:
        crash.message = f"{finding}; {crash.message}"


def _numbered(launches: list[Launched]) -> list[Launched]:
    return [dataclasses.replace(x, number=n) for n, x in enumerate(launches, 1)]
