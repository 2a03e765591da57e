"""`smemsim capture` without a card: what it would run, what it keeps and takes up again, and that its kernels are in
the package.
"""

import json
import os
import pathlib
import re
import shutil
import types

import pytest
from click.testing import CliRunner

from places import ROOT
from smemsim import DISPUTES, InputError
from smemsim.cli import main
from smemsim.evidence import load_suite

pytest.importorskip("cuda.bindings", reason="the capture kit needs cuda-bindings")
from smemsim.capture import bench, kernels, plan, runner
from smemsim.capture.bench import settings
from smemsim.capture.one_suite import kernels_of, suites_of
from smemsim.capture.plan import Planned, plan_of
from smemsim.capture.report import report_of

ARCHS = ("sm_90a", "sm_100a", "sm_103a")
OTHERS = ("sm_80", "sm_86", "sm_89", "sm_120a", "sm_121a")
CARD = {"gpu": "a card of this test", "compute_capability": "9.0", "driver": "none"}
PLAN = (Planned("first", 1, "?"), Planned("second", 1, "?"), Planned("long", 500, "?"), Planned("third", 1, "?", needs="no-such-program"))


def command(*arguments):
    return CliRunner().invoke(main, ["capture", *arguments])


# ---- The plan ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", [*ARCHS, *OTHERS])
def test_every_suite_of_a_card_is_planned_once_and_the_plan_has_no_other(arch):
    names = [p.suite for p in plan_of(arch)]
    assert sorted(names) == sorted(suites_of(arch))
    assert all(p.seconds > 0 and p.question for p in plan_of(arch))


def test_disputes_that_suites_decide_exist_and_each_is_decided_once():
    decided = [name for names in plan.DECIDES.values() for name in names]
    assert set(decided) <= set(DISPUTES)
    assert len(decided) == len(set(decided))
    assert set(plan.DECIDES) <= set(suites_of("sm_100a"))


@pytest.mark.parametrize("minutes", ["0.1", "5", "60"])
def test_a_dry_run_says_what_fits_and_needs_no_card(minutes):
    done = command("--dry-run", "--arch", "sm_100a", "--minutes", minutes, "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.output)["sm_100a"]
    assert [r["suite"] for r in rows] == [p.suite for p in plan_of("sm_100a")]
    assert sum(r["seconds"] for r in rows if r["runs"]) <= 60 * float(minutes)


@pytest.mark.parametrize(("arch", "first"), [("sm_110a", "encode_tiled"), ("sm_120a", "mma_sync_sums"), ("sm_89", "mma_sync_sums")])
def test_other_cards_are_asked_for_what_they_have(arch, first):
    done = command("--dry-run", "--arch", arch)
    assert done.exit_code == 0
    assert first in done.output.splitlines()[1]
    assert "wgmma" not in done.output
    assert ("encode_tiled" in done.output) is (arch != "sm_89")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--arch", "sm_90a"], "--arch sm_90a: is for --dry-run"),
        (["--dry-run", "--arch", "sm_91a"], "sm_91a"),
        (["--dry-run", "--arch", "sm_90a", "tma_laods"], "did you mean 'tma_loads'?"),
        (["--minutes", "0"], "--minutes"),
        (["--minutes", "soon"], "--minutes"),
    ],
)
def test_wrong_input_is_a_sentence_and_no_capture(arguments, says):
    done = command(*arguments)
    assert done.exit_code == 2
    assert says in done.output
    assert "Traceback" not in done.output


# ---- The kernels -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
def test_the_ptx_of_every_kernel_is_in_the_package(arch, monkeypatch):
    """And made from the CUDA C++ that lies there: it is found by its digest. `python -m tools.kit_ptx` writes it anew."""
    monkeypatch.setattr(settings, "arch", arch)
    for name, text in kernels_of(arch).items():
        ptx = kernels.ptx_of(text(), arch)
        assert ptx is not None, f"{name}: the PTX of {arch} is older than its CUDA C++"
        assert f".target {arch}" in ptx
    assert kernels.ptx_of("// another text", arch) is None


def test_the_kit_needs_no_file_outside_the_package():
    """So that it works from a wheel: its files name no folder of a checkout."""
    folder = pathlib.Path(kernels.__file__).parent
    named = {
        f.name: line for f in folder.rglob("*.py") for line in f.read_text().splitlines() if re.search(r"\.parents\[|\btests/|ROOT\b", line)
    }
    assert named == {}


# ---- A capture ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def kit(monkeypatch):
    """A runner whose suites are written by hand; `kit.ran` says which, `kit.fails` which fail, `kit.stop` where Ctrl-C
    comes.
    """
    state = types.SimpleNamespace(ran=[], fails=set(), stop=None)
    recorded = load_suite(ROOT / "golden" / "sm_90a" / "encode_pointers")

    def run_suite(out, arch, p):
        if p.suite == state.stop:
            (out / runner.UNFINISHED / p.suite).mkdir(parents=True)
            raise KeyboardInterrupt
        state.ran.append(p.suite)
        if p.suite in state.fails:
            return runner.Done(p.suite, runner.FAILED, 0.1, "CUDA error 1")
        device = types.SimpleNamespace(describe=lambda: CARD)
        bench.write(
            types.SimpleNamespace(device=device), out, p.suite, recorded.kind, "written by a test", 1, len(recorded), recorded.arrays
        )
        return runner.Done(p.suite, runner.CAPTURED, 0.1)

    monkeypatch.setattr(settings, "arch", "sm_90a")
    monkeypatch.setattr(runner, "run_suite", run_suite)
    return state


def captured(out, minutes=1.0, card=CARD):
    heard = []
    done = runner.run(out, "sm_90a", card, PLAN, minutes, lambda p, d: heard.append((p.suite, d and d.state)))
    assert [name for name, state in heard if state is None] == [p.suite for p in PLAN]
    return {d.suite: d for d in done}


def test_suites_that_do_not_fit_or_lack_a_program_are_skipped_with_the_reason(tmp_path, kit):
    done = captured(tmp_path)
    assert kit.ran == ["first", "second"]
    assert done["long"].state == done["third"].state == runner.SKIPPED
    assert "takes about 500 s" in done["long"].why
    assert "no-such-program" in done["third"].why


@pytest.mark.parametrize("why", ["Ctrl-C", "a full disk"])
def test_a_capture_that_was_interrupted_goes_on_and_the_folder_is_the_same(why, tmp_path, kit, monkeypatch):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    captured(whole)
    kit.ran.clear()
    if why == "Ctrl-C":
        kit.stop = "second"
        with pytest.raises(KeyboardInterrupt):
            captured(cut)
    else:
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "disk_usage", lambda _: types.SimpleNamespace(free=(9 if kit.ran else 99) << 20))
            with pytest.raises(InputError, match=r"the disk has 9 MB left, .* run the same command again"):
                captured(cut)
    assert not (cut / runner.UNFINISHED).exists()
    kit.stop = None
    done = captured(cut)
    assert kit.ran == ["first", "second"]
    assert done["first"].state == runner.KEPT
    assert {p.relative_to(whole): p.read_bytes() for p in sorted(whole.rglob("*.npz"))} == {
        p.relative_to(cut): p.read_bytes() for p in sorted(cut.rglob("*.npz"))
    }
    assert json.loads((whole / runner.ABOUT).read_text()) == json.loads((cut / runner.ABOUT).read_text())


@pytest.mark.parametrize("there", ["a pipe", "a link", "no JSON"])
def test_the_description_of_a_folder_is_written_whatever_lies_there(there, tmp_path, kit):
    about = tmp_path / runner.ABOUT
    {
        "a pipe": lambda: os.mkfifo(about),
        "a link": lambda: about.symlink_to(tmp_path / "nowhere"),
        "no JSON": lambda: about.write_text("[" * 5000),
    }[there]()
    if there == "a pipe":
        with pytest.raises(InputError, match="cannot be written: it is a pipe"):
            captured(tmp_path)
        return
    captured(tmp_path)
    assert "first" in json.loads(about.read_text())["suites"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_suite_that_was_cut_short_runs_again(tmp_path, kit):
    captured(tmp_path)
    kit.ran.clear()
    data = tmp_path / "first" / "data.npz"
    data.write_bytes(data.read_bytes()[:-20])
    captured(tmp_path)
    assert kit.ran == ["first"]


def test_a_suite_that_fails_costs_itself_alone_and_is_told(tmp_path, kit):
    kit.fails = {"first"}
    done = captured(tmp_path)
    assert done["second"].state == runner.CAPTURED
    assert json.loads((tmp_path / runner.ABOUT).read_text())["suites"]["first"] == {
        "state": "failed",
        "seconds": 0.1,
        "why": "CUDA error 1",
    }


def test_traces_of_another_card_are_not_overwritten(tmp_path, kit):
    captured(tmp_path)
    with pytest.raises(InputError, match="holds traces of a card of this test, and this card is another"):
        captured(tmp_path, card=CARD | {"gpu": "another"})
    assert load_suite(tmp_path / "first").manifest["device"]["gpu"] == CARD["gpu"]


def test_a_process_that_fails_leaves_no_trace_and_its_last_words_name_no_path(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for module in ("json", "numpy"):  # a Python file of the current folder is not imported
        pathlib.Path(f"{module}.py").write_text("raise SystemExit('imported')")
    done = runner.run_suite(tmp_path, "sm_90a", Planned("no_such_suite", 1, "?"))
    assert done.state == runner.FAILED
    assert "no such suite" in done.why
    assert "/" not in done.why
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]


def test_the_report_says_what_agrees_what_is_left_and_how_to_send_it(tmp_path, kit):
    done = list(captured(tmp_path).values())
    said = report_of(tmp_path, "sm_90a", CARD, done).text("https://example.org/new")
    for part in (
        "Captured: 2 suites, 102 cases",
        "Differs from the model:",
        "left for another time: long, third",
        "https://example.org/new",
        "Edit nothing in it",
    ):
        assert part in said
