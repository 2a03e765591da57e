"""Programs of others as evidence: the corpus, what is kept of them, and when one is a witness."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from smemsim import AccumulatorLayout, InstrDescriptor, SharedMemory, SmemDescriptor, Unmodelled, from_float64, operand_addresses
from smemsim.cli import main
from smemsim.core.arithmetic.multiply import multiply
from smemsim.core.machine import tcgen05
from smemsim.core.spec import touched as touched_module
from smemsim.core.spec.alternatives import ALIKE, ALTERNATIVES, assuming, of_rule
from smemsim.core.spec.assumptions import MEASURED_POINTS, POINTS, assumed, in_force
from smemsim.core.spec.calibration import CALIBRATION, calibration
from smemsim.core.spec.evidence import RULES, kill_matrix
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.touched import touched
from smemsim.evidence import load_suite
from smemsim.evidence.launches import RecordedLaunches
from tools.evidence import __main__ as command
from tools.evidence.branches import CODES, REFUTES, assume, branch
from tools.evidence.corpus import CORPUS, checkout_of, corpus
from tools.evidence.kept import EMPTY as EMPTY_KEPT
from tools.evidence.kept import kept, totals, with_rows
from tools.evidence.matrix import asked_again, merged, stale
from tools.evidence.page import counts, page
from tools.evidence.run import Runner, done_at, point_digest, point_digests
from tools.witnesses import hopper


def test_programs_are_references_that_can_be_followed():
    names = [p.name for p in corpus()]
    witnesses = {about["origin"]["project"] for about in kill_matrix()["programs"].values() if about["witness"] and about.get("origin")}
    assert len(names) == len(set(names)) >= 100
    for p in corpus():
        project = p.project
        assert re.fullmatch(r"[0-9a-f]{40}", project.commit)
        assert project.licence
        assert project.tested or project.name not in witnesses
        assert re.fullmatch(
            r"[\w.-]+/[\w.-]+( [\w.]+)?", project.name
        )  # of GitHub; a second checkout of one project has a word after its name
        assert not p.rests_on or p.rests_on in RULES
        assert p.limit > 0
        assert (p.each > 0) == bool(p.files)
        re.compile(p.functions)


def test_a_checkout_is_known_by_what_lies_in_it(tmp_path):
    project = corpus()[0].project
    (tmp_path / "other").mkdir()
    assert checkout_of(project, [tmp_path]) is None
    (tmp_path / "some name" / project.mark).mkdir(parents=True)
    assert checkout_of(project, [tmp_path]) == checkout_of(project, [tmp_path / "some name"]) == tmp_path / "some name"


def test_a_checkout_of_a_fork_is_none_of_the_project(tmp_path):
    project = next(p.project for p in corpus() if p.project.unless)
    (tmp_path / project.mark).mkdir(parents=True)
    assert checkout_of(project, [tmp_path]) == tmp_path
    (tmp_path / project.unless).mkdir(parents=True)
    assert checkout_of(project, [tmp_path]) is None


@pytest.mark.parametrize("arguments", [["run"], ["run", "nowhere at all"]])
def test_the_command_says_which_checkouts_it_wants(arguments, capsys):
    with pytest.raises(SystemExit) as e:
        command.main(arguments)
    assert e.value.code == 2
    assert "NVIDIA/cutlass" in capsys.readouterr().err


def test_a_folder_without_a_known_project_is_told(tmp_path, capsys):
    assert command.main(["run", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "no program" in capsys.readouterr().err


def test_programs_of_a_checkout_are_listed_with_how_to_get_its_project(tmp_path, capsys):
    p = next(p for p in corpus() if p.needs_executable and not p.project.unless)
    (tmp_path / "theirs" / p.project.mark).mkdir(parents=True)
    assert command.main(["list", str(tmp_path), "--only", p.name]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0] == f"{p.name}  {p.arch}  {p.project.name}  (--built)"
    assert p.project.commit in told
    assert command.main(["list", str(tmp_path / "theirs" / "nothing"), "--only", p.name]) == 2
    assert command.main(["list", "--only", "no such name"]) == 2


@pytest.mark.parametrize("built", [False, True])
def test_a_program_whose_executable_is_missing_names_it_and_the_folder(built, tmp_path, capsys):
    p = next(p for p in corpus() if p.name == "cicuvc.readback")
    assert Runner(tmp_path / "out", tmp_path if built else None).run([(p, tmp_path)], 1, float("inf")) == 0
    told = capsys.readouterr().err
    assert f"needs cicuvc_readback, built from {tmp_path}, in the folder of --built" in told
    assert not (tmp_path / "out" / "results.jsonl").exists()


def test_an_executable_that_is_there_is_run(tmp_path, monkeypatch):
    p = next(p for p in corpus() if p.name == "cicuvc.readback")
    (tmp_path / "cicuvc_readback").touch()
    asked = []
    monkeypatch.setattr(
        Runner,
        "_script",
        lambda self, program, *_: asked.append(program.name) or {"outcome": "passed", "launches": 0, "kernels": {}, "seconds": 1.0},
    )
    Runner(tmp_path / "out", tmp_path).run([(p, tmp_path)], 1, float("inf"))
    assert asked == [p.name]


def test_the_corpus_has_no_recipe_that_fetches_or_builds():
    rows = CORPUS.read_text(encoding="utf-8")
    assert not re.search(r"git clone|pip install|pip download|\bnvcc\b|\bg\+\+|\bcmake\b|mojo build", rows)


def test_a_program_that_lacked_a_package_is_run_again_and_one_that_failed_is_not(tmp_path, monkeypatch, capsys):
    programs = [p for p in corpus() if p.command and not p.needs_executable][:2]
    why = {programs[0].name: "ModuleNotFoundError: No module named 'cutlass'", programs[1].name: "Failed: 1 of 1 differs"}
    said = {"outcome": "failed", "launches": 0, "kernels": {}, "seconds": 1.0}
    tried = []

    def script(self, program, checkout, place):
        tried.append(program.name)
        return {**said, "why": why[program.name]}

    monkeypatch.setattr(Runner, "_script", script)
    for _ in range(2):
        Runner(tmp_path, None).run([(p, tmp_path) for p in programs], 1, float("inf"))
    assert sorted(tried) == sorted([programs[0].name, programs[0].name, programs[1].name])
    told = capsys.readouterr().err
    assert programs[0].project.commit[:12] in told
    assert "1 of 2 were run before" in told


def test_what_is_not_touched_changes_nothing():
    """Of a computation: an alternative that was not noted leaves it as it is."""
    passed = [("scales.id", (2, 1, (0, 2))), ("commit.arrivals", (1, 1)), ("ld_st.window", (np.array([32]), np.array([1]), np.array([0])))]
    with touched() as found:
        before = [assumed(point, *about) for point, about in passed]
    for name, a in ALTERNATIVES.items():
        with assuming(name):
            same = [np.array_equal(assumed(point, *about), was) for (point, about), was in zip(passed, before, strict=True)]
        assert all(same) == (name not in found), name
        assert name not in found or a.point in dict(passed)
    assert in_force() == ""


ROWS = [name for name, a in ALTERNATIVES.items() if a.point == "arithmetic.row"]
TILES = [name for name, a in ALTERNATIVES.items() if a.point == "arithmetic.tiles"]


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("f16", ("bf16", "bf16", "f32")),
        ("f16", ("f16", "f16", "f16")),
        ("tf32", ("tf32", "tf32", "f32")),
        ("f8f6f4", ("e4m3", "e5m2", "f32")),
    ],
)
def test_alternatives_of_the_arithmetic_are_touched_if_one_of_the_first_products_shows_them(kind, types):
    rng = np.random.default_rng(5)
    shapes = ((8, 32), (8, 32), (8, 8))
    some = [from_float64(rng.standard_normal(shape) * 2.0 ** rng.integers(-8, 4, shape), t) for shape, t in zip(shapes, types, strict=True)]

    def product(operands=some):
        return multiply(*operands, kind=kind, **dict(zip(("a_type", "b_type", "d_type"), types, strict=True)))[0]

    with touched() as found:
        before = product()
    shown = set()
    for name in (*ROWS, *TILES):
        with assuming(name):
            shown |= {name} if (product() != before).any() else set()
    assert found == shown
    assert shown & {*ROWS}
    assert shown & {*TILES}
    with touched(by_products=False) as used:
        product()
    assert used >= shown | {*TILES}
    assert len(used) < len(ROWS) + len(TILES)
    for names in (ROWS, TILES):
        with touched({name: ALTERNATIVES[name] for name in names}) as some_found:
            product()
        assert some_found == shown & {*names}
    for count, is_seen in ((touched_module.MOST_PRODUCTS - 1, True), (touched_module.MOST_PRODUCTS, False)):
        with touched() as later:
            for _ in range(count):
                product([np.zeros_like(x) for x in some])
            product()
        assert later == (found if is_seen else set())


@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
def test_alternatives_of_descriptors_are_touched_if_an_address_shows_them(swizzle, major):
    """Those of other modes are not touched, others of this mode may be."""
    start = 0x4080 if swizzle == "none" else 0x4400
    word = SmemDescriptor(arch="sm_100a", start_address=start, leading_byte_offset=2048, stride_byte_offset=1024, swizzle=swizzle).encode()
    names, shown = [name for name, a in ALTERNATIVES.items() if a.point in ("operand.words", "operand.tables")], set()

    def read():
        return operand_addresses(word, arch="sm_100a", dtype="bf16", major=major, rows=64, k=16)

    with touched() as found:
        before = read()
    for name in names:
        with assuming(name):
            shown |= {name} if (read() != before).any() else set()
    assert len(shown) >= 4
    assert shown <= found <= {*names}
    assert {width for name in found for width in (32, 64, 128) if f"={width}_of_" in name} <= {
        int(swizzle[:-1]) if swizzle != "none" else 0
    }


def test_nothing_is_noted_under_an_assumption():
    with assuming("tcgen05.shift=around"), pytest.raises(RuntimeError, match="is assumed"), touched():
        pass
    assert touched_module.MOST_PRODUCTS > 0


def test_a_child_computes_with_the_alternative_and_its_parent_does_not():
    code = branch(20, lambda: assume("tcgen05.commit=twice_in_pairs"), lambda: assumed("commit.arrivals", 1, 2))
    assert code == 2
    assert assumed("commit.arrivals", 1, 2) == 1
    assert branch(0.05, lambda: None, lambda: __import__("time").sleep(20)) == CODES["over limit"]
    assert set(REFUTES) < CODES.keys()


def test_where_an_alternative_meets_what_no_document_says_its_program_goes_on():
    """In children: columns behind the last one begin again, and metadata that was made for other elements is taken as
    it stands.
    """
    wide = {"m": 64, "n": 256, "ws": True, "column": 400}
    with assuming("tcgen05.accumulator=e_as_f"), pytest.raises(Unmodelled, match="511"):
        AccumulatorLayout(**wide)

    def place():
        _, lane, column = AccumulatorLayout(**wide).location(0, 200)
        return int((lane, column) == (0, 400 + 200 - 512))

    assert branch(20, lambda: assume("tcgen05.accumulator=e_as_f"), place) == 1

    def listed():
        tcgen05._check_metadata(
            InstrDescriptor(kind="f16", sparsity=True),
            np.full((128, 8), 0b0101),
            (np.zeros((128, 8), int),) * 4,
            [np.zeros((128, 16), np.uint16)],
        )
        return 1

    assert branch(20, lambda: assume("tcgen05.tensor_operands=metadata_plain"), listed) == 1
    assert branch(20, lambda: assume("tcgen05.accumulator=e_as_f"), listed) != 1


def row(**changed):
    kills = {"tcgen05.shift=around": "wrong", "tcgen05.pair=a_exchanged": "right"}
    digests = {ALTERNATIVES[a].point: point_digest(ALTERNATIVES[a].point) for a in kills}
    p = next(p for p in corpus() if p.arch == "sm_100a" and p.check == "exit")
    return {
        "program": p.name, "project": p.project.name, "commit": p.project.commit, "arch": "sm_100a", "versions": {"smemsim": "0"}, "outcome": "passed", "kills": kills,
        "digests": digests, "seconds": 1.0, "kernels": {"k": ["tcgen05.mma"]}, "codes": {}, "launches": 1, **changed,
    }  # fmt: skip


EMPTY = {"schema": "smemsim.kills/1", "programs": {}, "alternatives": {}}
NO_CHECK = next(p.name for p in corpus() if p.check == "none")


def test_a_witness_passed_its_own_check_and_what_it_refutes_is_kept():
    name = row()["program"]
    matrix = merged(EMPTY, [row()])
    assert matrix["programs"][name]["witness"]
    assert matrix["programs"][name]["origin"]["project"] == row()["project"]
    assert matrix["alternatives"]["tcgen05.shift=around"]["refuted_by"] == {name: "wrong"}
    assert matrix["alternatives"]["tcgen05.pair=a_exchanged"]["refuted_by"] == {}
    assert merged(matrix, []) == matrix  # and stays, whoever goes on in another folder
    matrix["programs"][name]["tried"] = {"of other sources": list(row()["kills"])}
    assert merged(matrix, [])["programs"] == {}
    assert merged(matrix, [])["alternatives"]["tcgen05.shift=around"]["refuted_by"] == {}


def test_what_a_refutation_rests_on_is_told(monkeypatch):
    """A program that compares two units of one card refutes as far as the other unit's rule goes; where another program
    refutes too, nothing rests on it.
    """
    p = next(p for p in corpus() if p.rests_on)
    assert merged(EMPTY, [row(program=p.name)])["programs"][p.name]["rests_on"] == p.rests_on
    whole = kill_matrix()
    beside = {name for name, about in whole["programs"].items() if about.get("rests_on")}
    theirs = {name: {x: told for x, told in about["refuted_by"].items() if x in beside} for name, about in whole["alternatives"].items()}
    alone = {**whole, "alternatives": {name: {"refuted_by": by} for name, by in theirs.items()}}
    rule = next(name for name, by in theirs.items() if by).partition("=")[0]
    for matrix in (whole, alone):
        monkeypatch.setattr("smemsim.core.spec.evidence.kill_matrix", lambda matrix=matrix: matrix)
        told = CliRunner().invoke(main, ["evidence", "--alternatives", rule]).output
        blocks = re.split(r"\n(?=\S)", told)
        resting = {block.partition("\n")[0] for block in blocks if f"as sure as {p.rests_on} there" in " ".join(block.split())}
        witnesses = {
            name: {x for x in about["refuted_by"] if whole["programs"][x]["witness"]} for name, about in matrix["alternatives"].items()
        }
        assert resting == {name for name, by in witnesses.items() if by and by <= beside}
    assert resting


def test_a_run_that_is_repeated_says_more_or_takes_back():
    name = row()["program"]
    matrix = merged(merged(EMPTY, [row()]), [row(kills={"tcgen05.pair=a_exchanged": "wrong"})])
    assert matrix["alternatives"]["tcgen05.shift=around"]["refuted_by"] == {name: "wrong"}
    assert matrix["alternatives"]["tcgen05.pair=a_exchanged"]["refuted_by"] == {name: "wrong"}
    assert merged(matrix, [row(kills={"tcgen05.shift=around": "right"})])["alternatives"]["tcgen05.shift=around"]["refuted_by"] == {}
    assert stale(matrix) == []


def test_what_the_matrix_has_is_not_wanted_again(tmp_path):
    """Of witnesses, found with the sources as they are."""
    left = Runner(tmp_path, None, kill=True)._left("sm_100a")["left"]
    matrix, fresh = kill_matrix(), merged(kill_matrix(), [])
    known = {name for name, about in fresh["programs"].items() if about["witness"]}
    for name, found in fresh["alternatives"].items():
        assert (left[name] > 0) == (not known & found["refuted_by"].keys()), name
    some = Runner(tmp_path, None, kill=True, alternatives="tcgen05.shift=")._left("sm_100a")["left"]
    assert {name for name, count in some.items() if count > 0} <= {name for name in some if name.startswith("tcgen05.shift=")}
    assert matrix["alternatives"].keys() == left.keys()


@pytest.mark.parametrize(
    ("ended", "told"),
    [((0, []), "right"), ((1, []), "wrong"), ((None, []), "over limit"), ((139, []), "ended"), ((255, []), "wrong"), ((1, [(801, "not modelled")]), "unmodelled")],
)  # fmt: skip
def test_a_program_whose_device_is_elsewhere_is_started_again_for_each_alternative(ended, told, tmp_path, monkeypatch):
    code, launches = ended
    p = next(p for p in corpus() if p.needs_executable and p.arch == "sm_100a")
    assumed_here = []

    def once(self, program, checkout, place, plan, limit, *options):
        assumed_here.append(plan["assume"])
        return code, "", [SimpleNamespace(error=error, refused=refused, run=None) for error, refused in launches]

    monkeypatch.setattr(Runner, "_once", once)
    runner = Runner(tmp_path, tmp_path, kill=True)
    plan = {"kill": {**runner._left("sm_100a"), "left": {"tcgen05.shift=around": 1, "tcgen05.alloc=highest": 0}}}
    assert runner._served(p, tmp_path, tmp_path, plan, ["tcgen05.alloc=highest", "tcgen05.shift=around"], 1.0) == {
        "tcgen05.shift=around": told
    }
    assert assumed_here == ["tcgen05.shift=around"]


@pytest.mark.parametrize("changed", [{"outcome": "failed"}, {"program": "unknown"}, {"digests": {}}, {"kills": {}}])
def test_what_failed_is_unknown_or_old_says_nothing(changed):
    assert merged(EMPTY, [row(**changed)]) == merged(EMPTY, [])


def test_a_program_that_compares_nothing_is_no_witness():
    assert merged(EMPTY, [row(program=NO_CHECK)]) == merged(EMPTY, [])


def test_a_program_that_is_not_known_to_run_on_the_card_is_no_witness():
    program = next(p.name for p in corpus() if not p.project.tested)
    assert merged(EMPTY, [row(program=program)]) == merged(EMPTY, [])


def test_distinct_kernels_are_counted_of_what_passed(tmp_path):
    rows = [
        row(test="a"),
        row(test="b"),
        row(test="c", outcome="failed", kernels={"other": []}),
        row(test="d", kernels={"plain": ["mma.sync"]}),
    ]
    assert counts(rows) == {"run": 4, "passed": 3, "launches": 3, "kernels": 2, "with TMA or tensor memory": 1, "with matrix products": 1}
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(x) + "\n" for x in rows), encoding="utf-8")
    assert f"| {rows[0]['program']} | sm_100a | 3 of 4 | 2 | none | 4 |" in page(tmp_path)


def test_an_alternative_is_tried_until_it_is_refuted(tmp_path):
    """What was found with other sources does not count."""
    (tmp_path / "kills.jsonl").write_text(
        json.dumps(row()) + "\n" + json.dumps(row(test="old", digests={"shift.source": "0"})) + "\n", encoding="utf-8"
    )
    before, left = (Runner(folder, None, kill=True)._left("sm_100a") for folder in (tmp_path / "empty", tmp_path))
    assert left["left"]["tcgen05.shift=around"] == before["left"]["tcgen05.shift=around"] - 1
    assert left["left"]["tcgen05.pair=a_exchanged"] == before["left"]["tcgen05.pair=a_exchanged"]
    assert left["tries"]["tcgen05.pair=a_exchanged"] == left["tries"]["tcgen05.pair=b_exchanged"] - 1


def test_tests_of_a_suite_that_are_known_are_left_out_unless_the_sources_changed(tmp_path):
    p = next(p for p in corpus() if p.files)
    rows = [row(program=p.name, test="known"), row(program=p.name, test="old", digests={"shift.source": "0"}), row(test="of another")]
    (tmp_path / "kills.jsonl").write_text("".join(json.dumps(x) + "\n" for x in rows), encoding="utf-8")
    assert Runner(tmp_path, None, kill=True)._done(p) == {"known"}


def test_a_suite_of_which_nothing_can_be_read_was_not_run(tmp_path, monkeypatch, capsys):
    """Its packages are missing: that is told, and a second call tries again."""
    p = next(p for p in corpus() if p.files)
    monkeypatch.setattr(Runner, "_suite", lambda *_: ([], True))
    assert Runner(tmp_path, None)._one(p, tmp_path)
    assert p.project.commit[:12] in capsys.readouterr().err
    assert not (tmp_path / "results.jsonl").exists()


def test_what_ran_while_its_sources_were_changed_does_not_count(tmp_path):
    """Digests are those of before and after the run."""
    p = next(p for p in corpus() if p.arch == "sm_100a" and p.command)
    runner = Runner(tmp_path, None, kill=True)
    before = {**point_digests("sm_100a"), "shift.source": "another"}
    runner._keep(
        p, tmp_path, [{"outcome": "passed", "touched": ["tcgen05.shift=around", "tcgen05.pair=a_exchanged"]}], before, is_whole=True
    )
    [kept] = map(json.loads, (tmp_path / "kills.jsonl").read_text(encoding="utf-8").splitlines())
    assert kept["digests"] == {ALTERNATIVES["tcgen05.pair=a_exchanged"].point: before[ALTERNATIVES["tcgen05.pair=a_exchanged"].point]}


def test_what_was_found_with_other_sources_is_named():
    matrix = merged(EMPTY, [row()])
    assert stale(matrix) == []
    about = matrix["programs"][row()["program"]]
    about["tried"] = {f"other {digest}": names for digest, names in about["tried"].items()}
    assert sorted(stale(matrix)) == sorted(f"{row()['program']}: {a}" for a in row()["kills"])


def test_all_that_a_witness_refutes_was_tried_with_it():
    for matrix in (kill_matrix(), calibration()):
        tried = {name: {a for names in about["tried"].values() for a in names} for name, about in matrix["programs"].items()}
        for alternative, found in matrix["alternatives"].items():
            assert all(alternative in tried[name] for name in found["refuted_by"] if matrix["programs"][name].get("origin"))


def test_the_matrix_says_of_every_witness_whose_it_is():
    for name, about in kill_matrix()["programs"].items():
        assert about["witness"] == bool(about.get("origin")), name
        if about["witness"]:
            assert re.fullmatch(r"[0-9a-f]{40}", about["origin"]["commit"])
            assert about["right"]
            assert about["kernels"]


def test_calibration_is_of_rules_that_are_measured_on_hopper():
    for a in CALIBRATION.values():
        assert RULES[a.rule].grades["sm_90a"] is Grade.MEASURED
        assert a.point in MEASURED_POINTS or a.point in POINTS
    assert calibration()["alternatives"].keys() == CALIBRATION.keys()
    assert all(about["arch"] == "sm_90a" and about["right"] for about in calibration()["programs"].values())


def test_one_mma_tells_the_rule_of_sums_from_each_alternative_that_is_open():
    """Design values: each chosen probe parts some alternatives, and what is told differs from the rule by the model's
    own arithmetic.
    """
    pytest.importorskip("cuda.bindings", reason="the capture tool needs cuda-bindings")
    from smemsim.capture.blackwell import separate

    forms = {("f16", "bf16", "f32"), ("f16", "f16", "f16"), ("tf32", "tf32", "f32"), ("mxf4", "e2m1x2", "f32"), ("i8", "s8", "s32")}
    every = separate.separations(
        {(i.kind, i.a, i.d): i for i in separate.instructions() if i.a == i.b and (i.kind, i.a, i.d) in forms}.values()
    )
    told = {name for one in every for name in one.told}
    known = {name for name, about in kill_matrix()["programs"].items() if about["witness"] and not about.get("rests_on")}
    still_open = {a.name for a in of_rule(separate.RULE) if not known & kill_matrix()["alternatives"][str(a)]["refuted_by"].keys()}
    assert len(told) > 20
    assert still_open <= told | {
        "scale_input_d_ignored",
        "scale_input_d_multiplies",
        "ue4m3_bias_8",
    }  # of other operands: tcgen05_modifiers
    for found in every:
        assert "ue4m3_bias_8" not in found.told
        assert len(found.probes) <= separate.MOST
        assert not any(separate.AS_IT_IS in group and set(group) & set(found.told) for group in found.alike)
        for n in range(len(found.probes)):
            assert len({bits[n] for bits in found.results.values()}) > 1


def test_a_launch_of_a_card_is_judged_by_its_own_check_and_by_the_bits():
    """Where operands lie shows in numbers; how sums are rounded only in bits."""
    suite = load_suite(hopper.SUITE)
    recorded, case = RecordedLaunches(suite), suite.arrays["name"].tolist().index("gemm_bf16")
    assert hopper.told(recorded, case) == ("right", "right")
    assert hopper.told(recorded, case, CALIBRATION["operand.swizzle=128_and_64"]) == ("wrong", "wrong")
    assert hopper.told(recorded, case, CALIBRATION["arithmetic.wgmma=23_bits"]) == ("right", "wrong")
    assert in_force() == ""


def test_of_runs_on_a_card_the_bits_refute_what_the_own_check_does_not():
    for name, row in calibration()["alternatives"].items():
        assert not row["refuted_by"].keys() & row.get("by_bits", {}).keys(), name
        for program in row.get("by_bits", {}):
            assert calibration()["programs"][program]["bits"]
            assert calibration()["programs"][program]["silicon"]["gpu"].startswith("NVIDIA H")


def test_alike_are_alternatives_that_no_program_refutes():
    known = {name for name, about in kill_matrix()["programs"].items() if about["witness"]}
    for name in ALIKE:
        assert not known & kill_matrix()["alternatives"][name]["refuted_by"].keys()


def test_memories_of_a_pair_are_told_apart_by_which_they_are():
    """Both look alike: what matters is whose each one is."""
    one, other = (SharedMemory("sm_100a", size=1024) for _ in range(2))
    with touched() as found:
        assumed("cp.sources", (one, other))
    assert found == {"tcgen05.cp=of_leader", "tcgen05.cp=exchanged"}
    with touched() as found:
        assumed("cp.sources", (one,))
    assert found == set()


def test_what_is_stale_of_a_program_is_asked_again_and_nothing_else():
    old = ["a.unit::test_x[3-k.1]: p=q", "a.unit::test_x[4]: p=r", "a.unit::test_y: p=q", "a.unit_2::test_z: p=s", "b.dot: p=q"]
    tests, alternatives = asked_again(old, "a.unit") or ("", "")
    assert [name for name in ("test_x", "test_y", "test_xy", "test_z") if re.search(tests, name)] == ["test_x", "test_y"]
    assert [name for name in ("p=q", "p=r", "p=s", "p=qq") if re.search(alternatives, name)] == ["p=q", "p=r"]
    assert asked_again(old, "b.dot") == ("", "^(p=q)$")
    assert asked_again(old, "c.dot") is None


def test_a_run_is_stale_where_what_asks_does_something_else():
    """Not where a file says something else of itself or of types, imports or has other things."""
    file = (
        'import numpy\nTABLE = 2\ndef asks(x):\n    "Twice."\n    return assumed("p", twice(x))  # as said\n'
        "@compiled\ndef twice(x):\n    y = x\n    return TABLE * y\ndef other(x):\n    return x\n"
        'class Cell:\n    def cell(self):\n        return assumed("q", self.own())\n    def own(self):\n        return 1\n    def further(self):\n        return 2\n'
    )
    for point, was, now, is_same in (
        ("p", "import numpy", "", True), ("p", "Twice.", "So.", True), ("p", "  # as said", "", True), ("p", "return x", "return 3", True),
        ("p", "return 1", "return 3", True), ("p", "TABLE = 2", "TABLE = 3", False), ("p", "TABLE * y", "TABLE + y", False),
        ("p", "twice(x):", "twice(x: int) -> int:", True), ("p", "y = x", "y: int = x", True), ("p", "@compiled", "@compiled(reads='x')", True),
        ("p", "@compiled", "@other", False), ("p", "def twice(x)", "def twice(x=1)", False), ("q", "TABLE * y", "TABLE + y", True), ("q", "return 2", "return 3", True), ("q", "return 1", "return 3", False), ("q", "cell(self)", "cell(self, n)", False),
    ):  # fmt: skip
        assert was in file
        assert (done_at(file.replace(was, now), point) == done_at(file, point)) == is_same, (point, was)


def test_what_passed_is_kept_with_its_kernels_and_counted_once():
    rows = [
        row(test="a", date="d"),
        row(test="b", date="d", outcome="failed", why="other numbers"),
        row(test="c", date="d", kernels={"m": ["mma.sync"]}),
    ]
    first = with_rows(EMPTY_KEPT, rows)
    assert first == with_rows(first, [*rows, row(test="d", date="d", outcome="skipped"), row(program=NO_CHECK, date="d")])
    (one, every) = totals(first)
    assert every == {**one, "project": "all", "arch": ""}
    assert {"passed": 2, "failed": 1, "kernels": 2, "own instructions": 1, "products": 1}.items() <= every.items()
    later = with_rows(first, [row(test="b", date="e"), row(test="a", date="e", outcome="failed")])
    assert later["programs"][rows[0]["program"]]["passed"] == {"b": ["k"], "c": ["m"]}
    assert totals(later)[-1]["failed"] == 1
    assert totals(later, is_blackwell=False)[-1]["passed"] == 0


def test_kernels_that_are_kept_are_those_of_what_passed():
    found = kept()
    assert {p.name for p in corpus()} >= found["programs"].keys()
    assert {digest for one in found["programs"].values() for digests in one["passed"].values() for digest in digests} == found[
        "kernels"
    ].keys()
    assert not any(one["passed"].keys() & one["failed"].keys() for one in found["programs"].values())
