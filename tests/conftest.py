"""Settings of every property: the same examples on every machine and in every order of tests. Little garbage
collection. No test writes into the checkout.

`--hypothesis-seed=N` draws the examples of that seed. `pytest tests --hypothesis-profile=nightly` draws other examples
every time, eight times as many. If one of them fails, it becomes an `@example` of its test, in the commit that repairs
the fault, so that the examples which never change hold it from then on.
"""

import contextlib
import ctypes
import gc
import importlib
import os
import pathlib
import sys

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

import llvmlite.binding  # noqa: F401  (before pytester: it forgets what a run inside imports, and this cannot be imported twice)
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings
from hypothesis.internal.conjecture import providers

# Every worker has one core: threads of its own in numpy's library would spin on those of the others. Read when numpy is
# imported, which is later.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Hypothesis also draws the numbers and texts of every module that is imported at that moment. Which these are depends
# on the tests that ran before, and on the
# worker. Without them a test draws the same examples alone and in the whole suite. The name is internal: a test in
# test_testing.py says if it is gone.
providers._get_local_constants = providers.Constants

# Nobody reads why an example that a test looks for fails: that phase runs it again and again, traced.
settings.register_profile("smemsim", max_examples=25, deadline=None, derandomize=True, phases=set(Phase) - {Phase.explain})
settings.register_profile("seeded", settings.get_profile("smemsim"), derandomize=False, database=None)
settings.register_profile("nightly", deadline=None, derandomize=False, database=None, print_blob=True)
settings.load_profile("smemsim")

# The package, its tests and what numba compiles live to the end: going through them again and again is a tenth of the
# time. Each process has its part of the memory; a million objects that wait for the collector are some 500 MB.
_memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()) else 0
_memory //= int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
gc.set_threshold(max(1_000_000, min(3_000_000, _memory // 4000)), 20, 100)

# Memory that is free stays with the process: launches ask for as much again, and each new page of it is to be cleared.
with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library than glibc
    for setting, value in ((-3, 1 << 25), (-1, 1 << 30)):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
        ctypes.CDLL(None).mallopt(setting, value)

collect_ignore = ["ptx/add.py"]  # needs Triton; its output is beside it
collect_ignore_glob = ["programs/*"]  # programs of users, which tests start

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Folders of tests whose launches name facts that stay as they are. Not files in them whose facts depend on the time, or
# whose tests compare the facts themselves.
WHOSE_FACTS_STAY = {ROOT / "tests" / "run", ROOT / "tests" / "diagnosis"}
WHOSE_DO_NOT = {"test_profile.py", "test_kept_code.py", "test_concurrency.py", "test_corpus.py"}
OF_TOOLS = {
    ".git",
    "__pycache__",
    ".mypy_cache",
    ".ruff_cache",
    ".import_linter_cache",
    ".hypothesis",
    ".pytest_cache",
    ".venv",
    "build",
    "dist",
}


def pytest_configure(config):
    """Tests that stand beside each other share what they have made: a worker has a part of the suite in one piece, and
    helps when it is done.
    """
    if getattr(config.option, "dist", None) == "load":
        config.option.dist = "worksteal"
    if config.getoption("--hypothesis-seed", None) is not None and config.getoption("--hypothesis-profile", None) is None:
        settings.load_profile("seeded")


def pytest_collectstart(collector):
    """In a new checkout Python compiles every file of tests, with its assertions spelled out, and Hypothesis reads the
    package's numbers: half of collecting. Of a run of all tests every second worker begins at the end, so that each
    finds kept what another one has done.
    """
    is_second = os.environ.get("PYTEST_XDIST_WORKER", "")[-1:] in {*"13579"}
    if is_second and collector.path == ROOT / "tests" and collector.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        for path in sorted(collector.path.rglob("test_*.py"), reverse=True):
            with contextlib.suppress(Exception, pytest.skip.Exception):  # told where it is collected
                importlib.import_module(path.stem)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Tests have examples in few files: to look for them at every function of all others is a tenth of collecting."""
    found = yield
    return [one for one in found if type(one) is pytest.Module or ">>>" in file_path.read_text(encoding="utf-8")]


def pytest_runtest_protocol(item, nextitem):
    """A worker reports each test once. xdist sends five messages (started, setup, call, teardown, finished): half a
    millisecond of two processes.

    Reports of setup and teardown are sent if they failed or skipped, and all if somebody asks for times or names. The
    words by which a test can be chosen are not sent: the worker has chosen.
    """
    option = item.config.option
    if not hasattr(item.config, "workerinput") or option.durations or option.verbose > 0 or getattr(option, "xmlpath", None):
        return None
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.when == "call" or not report.passed:
            report.keywords = {}
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_collection_finish():
    """What is there before the first test stays to the end: who looks for garbage need not go through it."""
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _what_a_file_of_tests_keeps_stays():
    """So does what is left when a file of tests is over: of twelve thousand tests that is so much that to look through
    it all takes a second.
    """
    yield
    gc.collect()
    gc.freeze()


def files_of_checkout():
    """Every file but those of the tools that look at the code, and the texts that a person may write meanwhile."""
    found = set()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in OF_TOOLS and not name.endswith(".egg-info")]
        found |= {os.path.join(folder, name) for name in names if not name.endswith((".py", ".md"))}
    return found


def pytest_collection_modifyitems(items):
    """What each launch of these tests names is held against a snapshot, besides what the test itself asks. Examples
    that Hypothesis draws are left out: other ones have other facts.
    """
    for item in items:
        if (
            item.path.parent in WHOSE_FACTS_STAY
            and item.path.name not in WHOSE_DO_NOT
            and not hasattr(getattr(item, "obj", None), "hypothesis")
        ):
            item.fixturenames.append("_facts_stay")


@pytest.fixture
def _facts_stay(request, snapshot):
    from facts import recorded

    with pytest.MonkeyPatch.context() as patch:
        told = recorded(patch)
        yield
        if getattr(request.node, "has_passed", False) and told():
            assert told() == snapshot(name="facts")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "call":
        item.has_passed = report.passed
    return report


@pytest.fixture(scope="session", autouse=True)
def _processors_are_for_the_tests_beside():
    """No launch goes to other processors by itself: what one of them does there depends on what runs beside."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("smemsim.run.procs.shards.idle", lambda: 0)
        yield


@pytest.fixture(scope="session", autouse=True)
def _the_checkout_stays_as_it_is():
    before = files_of_checkout()
    yield
    made = files_of_checkout() - before
    assert not made, f"a test left {', '.join(sorted(made))}: it belongs into tmp_path"


def _of_all_workers(tmp_path_factory):
    """The folder of a run, of which every worker of xdist has one of its own below."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    """Where the environment wants no bytecode beside the sources, it lies in the folder of the run. What one worker has
    compiled the other one reads, and so do programs that tests start: half of their time went into compiling the
    package again. For them too, pytest leaves the package's assertions as they are, as it leaves those of others.
    """
    session.config.pluginmanager.rewrite_hook._must_rewrite.discard("smemsim")
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    if sys.dont_write_bytecode and (is_worker or not getattr(session.config.option, "numprocesses", None)):
        folder = str(_of_all_workers(session.config._tmp_path_factory) / "bytecode")
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        if is_worker:
            import numpy  # noqa: F401  (what is installed has its bytecode)

            sys.dont_write_bytecode, sys.pycache_prefix = False, folder


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """`once(name, make)`: the path of that name, where `make(path)` has made something; of several workers one makes
    it, and the others wait.
    """

    def made(name, make):
        path = _of_all_workers(tmp_path_factory) / "once" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        done = path.with_name(f"{path.name}.done")
        with path.with_name(f"{path.name}.lock").open("w") as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                make(path)
                done.touch()
        return path

    return made
