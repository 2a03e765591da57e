"""Random concurrent programs: all forms are drawn and accepted, differences are reported, also those of a card."""

import dataclasses
import hashlib
import json
import random
import re
import shutil
import subprocess
import time

import pytest

import smemsim
from smemsim.campaign.spaces import concurrent, concurrent_chains, space
from tools.capture import concurrent_programs as card

FORMS = [form for family in concurrent.FAMILIES.values() for form in family.forms]


def operands(seed=0, *, is_deterministic=False):
    return concurrent.Operands(random.Random(seed), warps=2, cluster=2, is_deterministic=is_deterministic)


def of_forms(seed):
    """A program that has each form once."""
    words = operands(seed)
    return concurrent.Program(tuple(words.fill(form.text) for form in FORMS), 2, 2, 2)


@pytest.fixture
def silent():
    """A program without findings that stores the numbers of its threads."""
    program = concurrent.Program(("st.global.u32 [%mine], %v0;",), 1, 1)
    return card.modelled(program, 3).silent


def test_each_form_is_a_form_of_ptx():
    smemsim.Gpu("sm_90a").kernel(of_forms(0).text())


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
def test_ptxas_takes_each_form(tmp_path):
    source = tmp_path / "forms.ptx"
    source.write_text(of_forms(0).text())
    done = subprocess.run(["ptxas", "-arch=sm_90a", source, "-o", tmp_path / "forms.cubin"], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr


@pytest.mark.parametrize("is_deterministic", [False, True])
def test_each_form_is_drawn(is_deterministic, monkeypatch):
    """The forms of open programs are in no deterministic one, and no instruction reads what atomics leave there."""
    drawn, fill = set(), concurrent.Operands.fill

    def noted(self, text):
        drawn.add(text)
        return fill(self, text)

    monkeypatch.setattr(concurrent.Operands, "fill", noted)
    texts = [concurrent.draw(random.Random(seed), is_deterministic=is_deterministic).text() for seed in range(700)]
    assert drawn - {"<label>"} == {form.text for form in FORMS if not (is_deterministic and form.is_open)}
    uses = [line for text in texts for line in text.partition(concurrent.STEPS)[2].split("\n") if ", %x" in line or "{%x" in line]
    assert uses == []


def test_a_seed_draws_the_same_programs_on_every_machine_and_in_every_version():
    """A command shows a case again. A change of the space on purpose writes the digest anew."""
    drawn = [concurrent.draw(random.Random(seed), is_deterministic=seed % 2 > 0) for seed in range(40)]
    texts = [(program.text(), [other.text() for other in concurrent.simpler(program)][::4]) for program in drawn]
    assert hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16] == "e1848388d2da1dd6"


def test_a_deterministic_program_has_one_operation_of_atomics():
    found = set()
    for seed in range(6):
        words = operands(seed, is_deterministic=True)
        drawn = {words.draw("operation") for _ in range(20)}
        assert len(drawn) == 1
        found |= drawn
    assert len(found) > 2
    assert (
        len({operands().draw("operation") for _ in range(1)} | {words.draw("operation") for words in [operands()] for _ in range(40)}) > 5
    )


def test_the_ways_to_run_a_program_agree():
    case = space("concurrent").case(0, 0, 3)
    assert (case.wrong, case.of.partition(",")[0]) == ("", "with findings")


@pytest.mark.parametrize(("way", "options"), [("JIT", {"tiers": "compiled"}), ("without cohorts", {"cohorts": False})])
def test_a_difference_is_reported_with_a_small_program(way, options, monkeypatch):
    """Here one way leaves another byte after each load of the input."""

    def outcome(self, *, cohorts=True, tiers="closures"):
        is_wrong = {"cohorts": cohorts, "tiers": tiers}.items() >= options.items() and "ld.global.nc" in self.text()
        return (bytes([is_wrong]),), 0, (), ()

    monkeypatch.setattr(concurrent.Program, "outcome", outcome)
    case = next(case for number in range(50) if (case := space("concurrent").case(0, 0, number)).wrong)
    assert (case.wrong, case.of.partition(" ")[0]) == (f"interpreter and {way}: other bytes in an array", "wrong:")
    steps = case.shown["kernel.ptx"].partition(concurrent.STEPS)[2].split("\n")
    assert steps[1:] == ["ret;", "}", ""]
    assert "ld.global.nc" in steps[0]
    json.dumps(case.shown)


def test_an_internal_error_is_reported(monkeypatch):
    def outcome(self, *, cohorts=True, tiers="closures"):
        if tiers == "compiled" or not self.has_zeros:
            raise KeyError("slot")
        return (b"",), 0, (), ()

    monkeypatch.setattr(concurrent.Program, "outcome", outcome)
    found = space("concurrent").run(0, 0)
    assert {trouble.what for trouble in found.troubles} == {"interpreter: raises KeyError: 'slot'", "JIT: raises KeyError: 'slot'"}
    assert found.troubles[0].reproduce == "smemsim campaign --reproduce concurrent:0:0:0"
    assert {of.partition(",")[0] for of in found.classes} == {"wrong: internal error", "wrong: silent"}


def test_a_launch_file_is_the_same_launch(tmp_path):
    """What `smemsim run` finds is what the campaign found."""
    program = concurrent.draw(random.Random(5))
    card.write(program, tmp_path)
    run, arrays = smemsim.launch_file(tmp_path, progress=False, workers=1)
    left, status, findings, _ = program.outcome()
    assert findings
    assert [finding.code for finding in run.findings] == [finding[0] for finding in findings]
    assert (tuple(arrays[name].numpy().tobytes() for name in concurrent.ARRAYS), run.launch.status) == (left, status)


# ---- chains


@pytest.mark.parametrize("kind", dict.fromkeys(kind.__name__ for kind in concurrent_chains.KINDS))
def test_a_right_chain_is_silent_and_a_broken_one_is_not(kind, monkeypatch):
    monkeypatch.setattr(concurrent_chains, "KINDS", [getattr(concurrent_chains, kind)])
    for seed in range(2):
        right, broken = (concurrent_chains.draw(random.Random(seed), broken=share) for share in (0, 1))
        assert (right.link, bool(broken.link)) == ("", True)
        found, wrong = right.outcome(tiers=""), broken.outcome(tiers="")
        assert concurrent_chains.wrong_verdict(right, found) == ""
        assert concurrent_chains.wrong_verdict(broken, wrong) == ""
        assert concurrent_chains.wrong_verdict(dataclasses.replace(right, link="none"), found) == "no finding and no remark: none"
        assert concurrent_chains.wrong_verdict(dataclasses.replace(broken, link=""), wrong) or wrong[3]


def test_other_words_of_a_right_chain_are_reported():
    chain = concurrent_chains.Chain(("st.global.u32 [%output], 7;",), 1, 1, made=(1, 0, 0))
    assert concurrent_chains.wrong_verdict(chain, chain.outcome()) == "a right program leaves other words in `out`"
    assert concurrent_chains.wrong_verdict(chain, "InternalError: why") == "InternalError: why"


def test_all_links_of_chains_break_and_a_seed_draws_the_same_chains():
    texts = [concurrent_chains.draw(random.Random(seed)).text() for seed in range(200)]
    links = {re.sub(r" (in round|\(stage) .*", "", text.split("\n// ")[1].partition("\n")[0]) for text in texts}
    assert len(links) > 50
    assert hashlib.sha256(json.dumps(texts[:40]).encode()).hexdigest()[:16] == "3149bfcda79d2257"


def test_a_chain_of_the_campaign():
    case = space("chains").case(0, 0, 1)
    assert (case.wrong, "// " in case.shown["kernel.ptx"]) == ("", True)


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
def test_ptxas_takes_chains(tmp_path):
    source = tmp_path / "chains.ptx"
    for seed in range(6):
        source.write_text(concurrent_chains.draw(random.Random(seed)).text())
        done = subprocess.run(["ptxas", "-arch=sm_90a", source, "-o", tmp_path / "x.cubin"], capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr


# ---- on a card, which is another smemsim here


class Wrong(smemsim.Gpu):
    """A card that leaves another bit in the second word of each array."""

    def get(self, address, size):
        data = super().get(address, size)
        data[4] ^= 1
        return data


class Trapping(smemsim.Gpu):
    def execute(self, kernel, config):
        return 700


def test_a_card_with_other_bytes_is_reported(silent):
    assert silent.program.text() == card.modelled(silent.program, 3).silent.program.text()
    assert card.on_card(smemsim.Gpu("sm_90a"), silent, 2) == {}
    number = int(silent.program.inputs()["in"][1])
    words = [("in", 1, number, number ^ 1), ("out", 1, 1, 0), ("flags", 1, 0, 1)]
    assert card.on_card(Wrong("sm_90a"), silent, 2) == {"differs": 2, "of": 2, "first": words}
    assert card.on_card(Trapping("sm_90a"), silent, 2) == {"differs": 1, "of": 1, "first": "CUDA error 700"}


def test_a_difference_on_the_card_is_made_small(silent):
    longer = silent._replace(program=dataclasses.replace(silent.program, steps=("bar.sync 0;", "mov.u32 %v3, %v0;", *silent.program.steps)))
    assert card.made_small(Wrong("sm_90a"), longer)["small"].endswith(f"{concurrent.STEPS}\nret;\n}}\n")


def test_a_batch_goes_on_after_a_hang_and_after_a_crash(silent):
    def work(connection, batch, runs):
        for one in batch:
            connection.send((one.number, None))
            if one.number == 1:
                time.sleep(60)
            if one.number == 3:
                raise SystemExit(7)
            connection.send((one.number, {"differs": 1} if one.number == 4 else {}))

    batch = [silent._replace(number=number) for number in range(5)]
    rows = card.rows_of_batch(batch, 2, 0.3, work, "fork")
    assert rows == {0: {}, 1: {"hangs": 0.3}, 2: {}, 3: {"died": 7}, 4: {"differs": 1}}


def test_a_program_that_differs_is_a_line_of_the_file(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("smemsim.testing.recorder.why_no_gpu", lambda: "")
    monkeypatch.setattr(card, "rows_of_batch", lambda batch, runs: {one.number: {"differs": runs, "of": runs} for one in batch})
    words = ["--seed", "1", "--out", str(tmp_path / "rows"), "--runs", "3", "--only"]
    number = next(n for n in range(2, 40) if card.main([*words, str(n)]) == 1)
    row, total = map(json.loads, (tmp_path / "rows").read_text().splitlines()[-2:])
    assert (row["number"], row["differs"], row["kernel.ptx"]) == (number, 3, card.program_of(1, number).text())
    assert total["total"] == {"programs": 1, "silent": 1, "on_card": 1, "wrong": 1}
    assert card.main(["--seed", "1", "--only", str(number), "--write", str(tmp_path / "one")]) == 0
    assert (tmp_path / "one" / "kernel.ptx").read_text() == row["kernel.ptx"]
    assert f"1:{number}" in capsys.readouterr().out


def test_without_a_card_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr("smemsim.testing.recorder.why_no_gpu", lambda: "the CUDA driver sees no GPU here")
    assert card.main([]) == 2
    assert capsys.readouterr().err.startswith("concurrent_programs: the CUDA driver sees no GPU here.")
