"""From the kit to a verdict: a stand-in card answers the kit's cases, and `replay` compares what the kit wrote. Nothing
here is silicon.

The stand-in is the model, so that agreement says only that contents, kernels' arguments, arrays and comparisons fit
together. What follows the manual instead (`pretend`, of the kit's own tests) agrees too, and one changed word of any
kind is found and put into words.
"""

import functools
import json
import random
import re
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import settings

from places import ROOT

pytest.importorskip("cuda.bindings", reason="the capture tool needs cuda-bindings")
import card
from card import ARCH, DEVICE, Card
from smemsim import InputError, Unmodelled
from smemsim.cli import main
from smemsim.core.spec.evidence import RULES
from smemsim.evidence import load_suite, replay_suite
from smemsim.evidence.kinds import KINDS
from smemsim.evidence.kinds.tcgen05 import judged
from smemsim.evidence.replay import Case, compared_cases
from test_blackwell_kit import PROBES, answering, pretend
from test_traces import rewritten

from smemsim.capture.blackwell import access, contents, dots, draw, gemm, machine, suites, transfers, words  # isort: skip


# ---- a few cases of every suite ------------------------------------------------------------------------------------------------------


def spread(cases, key):
    """One case of every key, another one of its members each time, so that what the key leaves out varies too."""
    members = {}
    for case in cases:
        members.setdefault(key(case), []).append(case)
    return [group[i * 5 % len(group)] for i, group in enumerate(members.values())]


def by_probe(case):
    p = case["probe"]
    return p["kind"], p["group"], p["ws"], p["sparse"]


IS_NIGHTLY = settings.get_current_profile_name() == "nightly"


def every(step):
    return lambda cases: cases[::step]


# module, what draws its cases, which of them are kept
DRAWN = {
    "tcgen05_operands": (
        draw,
        "operands",
        lambda cases: spread(cases, lambda c: (c[0].kind, c[0].group, c[0].ws, c[0].sparse)),
    ),
    "tcgen05_descriptor_edges": (
        draw,
        "edges",
        lambda cases: [c for c in spread(cases, lambda c: (c[0], c[2] >> 61)) if c[2] & 0x3FFF >= 0x40],
    ),
    "tmem_layouts": (suites, "layout_cases", lambda cases: spread(cases, lambda c: (*by_probe(c), c["probe"]["m"]))),
    "tcgen05_modifiers": (suites, "modifier_cases", lambda cases: spread(cases, lambda c: (c["what"], *by_probe(c), c["probe"]["m"]))),
    "tmem_operands": (
        suites,
        "tmem_operand_cases",
        lambda cases: spread(cases, lambda c: (*by_probe(c), c["what"], "ashift" in c["steps"][0]["op"])),
    ),
    "tmem_scales": (
        suites,
        "scale_cases",
        lambda cases: spread(
            cases, lambda c: (*by_probe(c), c["what"][0], c["probe"]["m"], *(c["steps"][0][f"scale_{x}"] >> 30 for x in "ab"))
        ),
    ),
    "tmem_metadata": (suites, "metadata_cases", lambda cases: spread(cases, lambda c: (*by_probe(c), c["probe"]["m"], c["what"]))),
    "tmem_access": (access, "cases", lambda cases: [*cases[:-12:5], *cases[-12:]]),
    "tcgen05_copies": (suites, "copy_cases", lambda cases: spread(cases, lambda c: (c["what"], c["group"], c["steps"][0]["a"] >> 61 & 1))),
    "tcgen05_dots_directed": (
        dots,
        "instructions",
        lambda cases: spread(cases, lambda i: (i.kind in words.BLOCK_SCALED, *([i.kind, i.d] if IS_NIGHTLY else []))),
    ),
    "tcgen05_dots": (dots, "random_cases", every(7)),
    "tcgen05_gemm": (gemm, "variants", lambda cases: spread(cases, lambda c: c["dtype"])),
} | {name: (transfers, "encodable", every(15)) for name in transfers.SUITES}


@pytest.fixture(scope="session")
def captured(once):
    """`captured(name)`: (the suite's folder, the cases that the model has no answer to)."""

    @functools.cache
    def of(name):
        unknown = once(f"stand-in/{name}.unknown.json", functools.partial(capture, name))
        return unknown.parent / name, set(json.loads(unknown.read_text()))

    return of


def capture(name, unknown):
    device = Card()
    with pytest.MonkeyPatch.context() as patch:
        if name in DRAWN:
            module, drawer, keep = DRAWN[name]
            drawn = getattr(module, drawer)
            patch.setattr(module, drawer, lambda *arguments: keep(drawn(*arguments)))
        with device.plugged_in(patch):
            suites.SUITES[name](device, unknown.parent)
    unknown.write_text(json.dumps(sorted(device.unknown)))


@pytest.fixture(scope="session")
def loaded(captured):
    """What the kit wrote; nobody changes its arrays."""
    return functools.cache(lambda name: load_suite(captured(name)[0]))


@pytest.fixture(scope="session")
def replayed(loaded):
    return functools.cache(lambda name: replay_suite(loaded(name)))


@pytest.mark.parametrize("name", suites.SUITES)
def test_what_the_kit_writes_replays_without_a_difference(name, captured, replayed):
    _, unknown = captured(name)
    report = replayed(name)
    assert report.differing == 0, report.text()
    unmodelled = {case for case, _ in report.unmodelled}
    # Contention has an answer that nobody can judge.
    assert unmodelled >= unknown if name == "tcgen05_contention" else unmodelled == unknown
    assert len(unmodelled) < report.cases or name == "tcgen05_contention"
    assert report.compared >= report.cases - len(unmodelled)


@pytest.mark.parametrize("name", suites.SUITES)
def test_what_the_kit_writes_is_what_the_documents_say(name, loaded):
    suite = loaded(name)
    arrays = {array.removesuffix("_start") for array in suite.arrays}
    text = (ROOT / "golden" / "README.md").read_text()
    assert re.search(rf"^### .*`{suite.kind}`", text, re.MULTILINE)
    assert arrays <= set(re.findall(r"`(\w+)`", text)), arrays - set(re.findall(r"`(\w+)`", text))
    assert set(KINDS[suite.kind].columns) <= set(suite.arrays)
    plan = (ROOT / "sim" / "smemsim" / "capture" / "blackwell" / "PLAN.md").read_text()
    assert re.search(rf"^\|.*`{name}`.*\| `{suite.kind}` \|$", plan, re.MULTILINE)


def test_nobody_can_take_the_stand_in_for_a_card(captured):
    path, _ = captured("tmem_shifts")
    about = json.loads((path / "manifest.json").read_text())
    assert about["device"] == DEVICE == {"gpu": "stand-in: the model itself, not silicon", "compute_capability": "10.0"}
    assert "stand-in: the model itself, not silicon" in replay_suite(load_suite(path)).text()
    assert not path.is_relative_to(ROOT)
    for manifest in (ROOT / "golden").rglob("manifest.json"):
        assert "stand-in" not in manifest.read_text()


def test_the_samples_reach_every_kind_form_and_outcome(loaded):
    a = {name: loaded(name).arrays for name in DRAWN}
    forms = {(kind, group, w, s) for kind in words.KINDS for group in (1, 2) for w in (0, 1) for s in (0, 1)}
    wanted = {(kind, group, w, s) for kind, group, w, s in forms if not (w and (group == 2 or kind in words.BLOCK_SCALED))}
    for name in ("tcgen05_operands", "tmem_layouts"):
        seen = set(zip(*(a[name][column].tolist() for column in ("kind", "group", "ws", "sparse")), strict=True))
        assert seen == {x for x in wanted if name == "tmem_layouts" or not (x[2] and x[3])}, name
    assert set(a["tcgen05_operands"]["operand"]) == {"A", "B"}
    assert set(a["tcgen05_operands"]["major"]) == {"K", "MN"}
    assert set(a["tcgen05_operands"]["dtype"]) >= {"tf32", "e2m1x2", "u8"}
    assert set(a["tmem_access"]["shape"]) == set(access.SHAPES)
    assert set(a["tcgen05_dots"]["kind"]) == set(words.KINDS)
    parts = [set(form.split(".")) for form in a["tcgen05_dots"]["form"].tolist()]
    assert any("sp" in part for part in parts)
    assert any("ws" in part for part in parts)
    assert set(a["tcgen05_dots"]["group"].tolist()) == {1, 2}
    for name in ("tmem_operands", "tmem_scales"):
        pairs = a[name]["group"] == 2
        assert (a[name]["owner_words"][pairs] > 0).all()
        assert (a[name]["owner_words"][~pairs] == 0).all()
    assert set(a["tcgen05_gemm"]["dtype"]) == {"bf16", "f16", "tf32", "e4m3", "s8"}
    assert set(a["tcgen05_gemm"]["group"].tolist()) == {1, 2}
    assert set(a["tcgen05_descriptor_edges"]["status"].tolist()) == {0, 700, 715, 719}
    assert set(a["tma_pairs"]["mask"].tolist()) == {0, 1, 2, 3}


# ---- one changed word ----------------------------------------------------------------------------------------------------------------


def first_case(arrays, **wanted):
    fits = arrays["status"] == 0
    for name, value in wanted.items():
        fits &= arrays[name] == value
    assert fits.any(), wanted
    return int(np.argmax(fits))


def word(name, inside, by=1, **wanted):
    """Another word in the ragged array, in the first case that ran and is as wanted; `inside` may be a fraction of its
    length.
    """

    def change(arrays):
        case = change.case = first_case(arrays, **wanted)
        start, end = arrays[f"{name}_start"][case : case + 2]
        at = start + (int(inside * (end - start)) if isinstance(inside, float) else inside)
        arrays[name][at] ^= np.array(by).astype(arrays[name].dtype)

    return change


def one(name, index, value, **wanted):
    """Another value in a plain array."""

    def change(arrays):
        case = change.case = first_case(arrays, **wanted)
        assert arrays[name][(case, *index)] != value
        arrays[name][(case, *index)] = value

    return change


def ended(status):
    """Another outcome for the first case that trapped."""

    def change(arrays):
        case = change.case = int(np.argmax(arrays["status"] == status))
        assert arrays["status"][case] == status
        arrays["status"][case] = 0
        arrays["completed"][case] = 1

    return change


def cells(arrays, case, name="raw"):
    start, end = arrays[f"{name}_start"][case : case + 2]
    return arrays[name][start:end].reshape(-1, int(arrays["group"][case]), 128, int(arrays["columns"][case]))


PLAIN_A = {"operand": "A", "kind": "f16", "group": 1, "ws": 0, "sparse": 0}


def read_elsewhere(arrays):
    """Row 3 is read 16 bytes further on, as a descriptor that means something else would have it."""
    case = read_elsewhere.case = first_case(arrays, **PLAIN_A)
    start, end = arrays["element_start"][case : case + 2]
    rows = arrays["element"][start:end].reshape(-1, int(arrays["stored_k"][case]))
    raw = cells(arrays, case)
    raw[raw == rows[3, 5]] += 8
    rows[3, 5] += 8


def lanes_exchanged(arrays):
    """D lies otherwise: rows 3 and 4 change places, and so do the elements that one finds in them."""
    case = lanes_exchanged.case = first_case(arrays, **PLAIN_A)
    raw = cells(arrays, case)
    lane = [int(np.argmax((raw[0, 0] == place).any(1))) for place in elements(arrays, case)[[3, 4], 0]]
    raw[:, :, lane] = raw[:, :, lane[::-1]]
    elements(arrays, case)[[3, 4]] = elements(arrays, case)[[4, 3]]


def elements(arrays, case):
    start, end = arrays["element_start"][case : case + 2]
    return arrays["element"][start:end].reshape(-1, int(arrays["stored_k"][case]))


def written_too(arrays):
    case = written_too.case = int(np.argmax([s == 0 and (cells(arrays, i) == -2).any() for i, s in enumerate(arrays["status"])]))
    raw = cells(arrays, case)
    raw.ravel()[int(np.argmax(raw == -2))] = 0x4000


def another_owner(arrays):
    case = another_owner.case = first_case(arrays, group=2)
    owner = cells(arrays, case, "owner")
    owner.ravel()[int(np.argmax(owner == 1))] = 2


def another_dot(arrays):
    case = another_dot.case = first_case(arrays, kind="f16")
    arrays["result"][case, 127, 15] ^= 1 << 30  # a row of zeros


def last_pass(name, which, by, **wanted):
    """Another word in the last pass of a pair, which asks for the owner: cell `which` of D."""

    def change(arrays):
        case = change.case = first_case(arrays, group=2, **wanted)
        words = arrays["words"][slice(*arrays["words_start"][case : case + 2])].reshape(int(arrays["passes"][case]), 2, 128, -1)
        words[(-1, *which)] = by(words[-1])

    return change


LANE = r"CTA \d lane \d+ column \d+"
# suite, change, what the report says, the rule in force
CHANGES = {
    "an element of an operand": ("tcgen05_operands", read_elsewhere, r"row 3, k 5: hardware read shared 0x[0-9a-f]+ \| model shared 0x", "operand."),
    "D in other lanes": ("tcgen05_operands", lanes_exchanged, rf"read the same elements and put them into other cells: shared .* shows in {LANE} \| model has it in", "tcgen05.accumulator"),
    "a cell that is not D's": ("tcgen05_operands", written_too, rf"{LANE} \(no element of layout \w\): hardware shows shared .*\| model nothing: the cell is untouched", "tcgen05.accumulator"),
    "another CTA's element": ("tcgen05_operands", another_owner, r"hardware shows the odd CTA's memory \| model the even CTA's", "tcgen05.pair"),
    "an operand's trap": ("tcgen05_operands", one("status", (), 700), r"hardware ends with CUDA error 700 \| model runs it", "tcgen05.idesc"),
    "an operand's hang": ("tcgen05_operands", one("completed", (), 0), r"hardware never completes it \| model runs it", "tcgen05.idesc"),
    "a window that does not end": ("tcgen05_descriptor_edges", ended(700), r"hardware runs it \| model traps: the operand passes the end", "tcgen05.idesc"),
    "D's place": ("tmem_layouts", word("words", 0, 0xFF, kind="f16", m=64, ws=0), rf"pass 0, {LANE} \(D\[0, 0\]\): hardware .* \| model 0 \(the row of A\)", "tcgen05.accumulator"),
    "a shape that exists": ("tmem_layouts", ended(715), r"hardware runs it \| model: no such instruction: instruction descriptor", "tcgen05.idesc"),
    "a masked lane": ("tcgen05_modifiers", word("words", 0.4, 1 << 20, what="disable-output-lane"), rf"{LANE} .*hardware .* \| model", ("tcgen05.accumulator", "arithmetic.tcgen05")),
    "a scaled D": ("tcgen05_modifiers", word("words", 5, 1 << 22, what="scale-input-d"), rf"{LANE} \(D\[0, 5\]\): hardware [\d.]+ \| model [\d.]+", "arithmetic.tcgen05"),
    "a byte of A": ("tmem_operands", word("words", 3, 1 << 23, what="tags", kind="f16"), r"\(part 0 of the place of A\[0, 3\]\) \| model", "tcgen05.tensor_operands"),
    "what a byte of A means": ("tmem_operands", word("words", 3, 1 << 23, what="bytes"), r"\(A\[0, 3\]\) \| model", "tcgen05.tensor_operands"),
    "a scale factor": ("tmem_scales", word("words", 3, 1 << 23, kind="mxf8f6f4"), r"hardware [\d.e-]+ \(no tag\) \| model [\d.e-]+ \(part 0 of the byte's place is \d+\)", "tcgen05.tensor_operands"),
    "A of the other CTA": ("tmem_operands", last_pass("words", (1, 0, 0), lambda last: last[0, 0, 0], kind="f16", m=256), r"pass 3, CTA 1 lane 0 column 0 .*hardware 1 \(the even CTA's A\[128, 0\]\) \| model 2 \(the odd CTA's A", "tcgen05.pair"),
    "factors of A of the other CTA": ("tmem_scales", last_pass("words", (1, 0, 0), lambda last: last[0, 0, 0], what="A 0", m=256), r"hardware 64 \(the even CTA's factor of A\) \| model 128 \(the odd CTA's factor of A\)", "tcgen05.pair"),
    "factors of B of the other CTA": ("tmem_scales", last_pass("words", (0, 5, 7), lambda last: last[1, 5, 7], what="B 0", m=256), r"hardware 128 \(the odd CTA's factor of B, which is inferred\) \| model 64 \(the even CTA's", "tcgen05.pair"),
    "metadata": ("tmem_metadata", word("words", 3, 0x3F800000, kind="f16"), r"hardware [01] \(times that row 0 keeps k = 3\) \| model [01]", "tcgen05.tensor_operands"),
    "a register of a load": ("tmem_access", word("words", 1, 0x00010001, store=0), r"warp 0 thread \d+ register \d+: hardware has lane \d+ \| model lane \d+", "tcgen05.ld_st"),
    "a cell of a store": ("tmem_access", word("words", 0, 512, store=1), r"lane \d+ column \d+: hardware .* \| model ", "tcgen05.ld_st"),
    "a copied word": ("tcgen05_copies", word("words", 0.5, 4, group=1, passes=1), rf"pass 0, {LANE}: hardware = .* \| model = shared 0x[0-9a-f]+ of CTA 0|untouched", "tcgen05.cp"),
    "a shifted lane": ("tmem_shifts", word("words", 9, 0x00010001), r"CTA 0 lane 0 column 9: hardware has lane \d+ \| model lane \d+", "tcgen05.cp"),
    "an allocation": ("tcgen05_allocations", one("address", (0, 0), 0x40), r"CTA 0, operation 0 \(alloc \d+\): hardware gives 0x40 \| model 0x0", "tcgen05.alloc"),
    "an arrival of a commit": ("tcgen05_commits", one("arrivals", (0,), 1, has_mask=1, mask=2), r"CTA 0: hardware arrives 1 times at its mbarrier \| model 0 times", "tcgen05.commit"),
    "an allocation that waits": ("tcgen05_allocations", one("status", (), 719), r"hardware ends with CUDA error 719 \| model runs it", "tcgen05.alloc"),
    "a dot product": ("tcgen05_dots_directed", another_dot, r"D\[127, 15\]: hardware 0x40000000 \| model 0x0", "arithmetic.tcgen05"),
    "a byte of the image": ("tcgen05_gemm", one("image", (77,), 0xEE), r"shared 0x44d: hardware 0xee \| model 0x", "tma.placement"),
    "an element of D": ("tcgen05_gemm", lambda a: a["d"].__setitem__((0, 3, 4), 7), r"D\[3, 4\]: hardware 0x00000007 \| model 0x", "arithmetic.tcgen05"),
    "a gathered row": ("tma_gather4", word("source", 3, 16), r"shared 0x[0-9a-f]+: hardware = .* \| model = global \+ ", "tma.blackwell"),
    "a gather's count": ("tma_gather4", one("transaction_bytes", (), 48), r"hardware 48 bytes \| model \d+ bytes", "tma.blackwell"),
    "a scattered row": ("tma_scatter4", word("source", 3, 16), r"global 0x[0-9a-f]+: hardware = shared .* \| model = shared", "tma.blackwell"),
    "a halo": ("tma_im2col_wide", word("source", 3, 16), r"shared 0x[0-9a-f]+: hardware = .* \| model = ", "tma.blackwell"),
    "a wide load's trap": ("tma_im2col_wide", one("status", (), 715), r"hardware ends with CUDA error 715 \| model runs it", "tma.blackwell"),
    "a map's byte": ("tma_gather4", lambda a: a["tensor_map"].__setitem__((0, 72), 3), r"byte 72: driver 0x3 \| model 0x", ("tensor_map.bits", "tma.blackwell")),
    "a pair's count": ("tma_pairs", one("credited", (1, 2), 5), r"pass 2, barrier of CTA 1: hardware 5 bytes \| model \d+ bytes", "tma.blackwell"),
    "a pair's phase": ("tma_pairs", one("credited", (0, 0), 0xFFFFFFFF), r"barrier of CTA 0: hardware no phase that ends \| model \d+ bytes", "tma.blackwell"),
    "a pair's byte": ("tma_pairs", word("odd", 3, 16, mask=3), r"CTA 1 shared 0x[0-9a-f]+: hardware from .* \| model from ", "tma.blackwell"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_one_changed_word_is_one_difference_that_says_what_is_where(what, captured, tmp_path):
    name, change, says, rules = CHANGES[what]
    suite = load_suite(rewritten(captured(name)[0], tmp_path / name, change))
    changed = getattr(change, "case", None)
    report = replay_suite(suite, case=changed)
    if changed is not None:  # a fifth of the others, which all are as a test above replays them
        others = compared_cases(suite, [case for case in range(len(suite)) if case % 5 == changed % 5 and case != changed])
        assert [case for case, found in others if isinstance(found, Case) and found.outcome.differing] == []
    assert report.differing >= 1
    assert report.differing == 1 or what == "an element of D"  # several cases have that D
    difference = report.differences[0]
    assert changed in (None, difference.case)
    assert re.search(says, difference.outcome.first), difference.outcome.first
    assert difference.outcome.rule.name.startswith(rules), difference.outcome.rule
    assert all(grade != "measured" for arch, grade in difference.outcome.rule.grades.items() if arch == ARCH)
    assert f"reproduce: smemsim replay {tmp_path / name} --case {difference.case}" in report.text()
    alone = replay_suite(suite, case=difference.case)
    assert alone.differences == report.differences[:1]


def test_every_kind_that_is_compared_has_a_change():
    kinds = {
        json.loads((ROOT / "golden" / "sm_90a" / f.name / "manifest.json").read_text())["kind"]
        for f in (ROOT / "golden" / "sm_90a").iterdir()
        if f.is_dir()
    }
    mine = {name: kind for kind in KINDS for name in [kind] if kind not in kinds | {"compiled_mma"}}
    plan = (ROOT / "sim" / "smemsim" / "capture" / "blackwell" / "PLAN.md").read_text()
    kind_of = {
        name: line.split("|")[2].strip(" `")
        for line in plan.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert {kind_of[name] for name, *_ in CHANGES.values()} == set(mine) - {"tcgen05_contention"}


# ---- what the model does not know ----------------------------------------------------------------------------------------------------

UNKNOWN = {
    "tcgen05_descriptor_edges": (r"layout code \d .* is invalid on sm_100a", r"bit 52 \(absolute LBO\) exists on sm_103a only"),
    "tcgen05_modifiers": (r"collector buffers", r"shift = \d+"),
    "tmem_operands": (r"\.ashift",),
    "tmem_metadata": (r"in figures only",),
    "tcgen05_copies": (r"128B_ATOM_32B has no K-major layout|is invalid on sm_100a",),
    "tmem_shifts": (r"which lanes a shift at lane \d+ moves is not known",),
    "tmem_access": (r"both halves of \.16x32bx2 write the same cells",),
    "tcgen05_contention": (r"recorded, not compared; who waits for whom",),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_nobody_knows_is_said_so_with_what_was_recorded(name, replayed):
    sentences = [why for _, why in replayed(name).unmodelled]
    for pattern in UNKNOWN[name]:
        assert any(re.search(pattern, why) for why in sentences), (pattern, sentences[:3])
    assert all("recorded" in why for why in sentences)


def test_replay_of_what_nobody_knows_is_no_success_and_no_failure(captured):
    path, _ = captured("tcgen05_contention")
    result = CliRunner().invoke(main, ["replay", str(path)], prog_name="smemsim")
    assert result.exit_code == 3
    assert "16 cases are not modelled" in result.output


def test_every_element_of_a_dot_product_counts(loaded, replayed, tmp_path):
    """Another last bit everywhere: every element is a difference, and the first one says whether it depends on
    rounding.
    """
    suite = loaded("tcgen05_dots")
    unknown = {case for case, _ in replayed("tcgen05_dots").unmodelled}

    def change(arrays):
        arrays["result"] ^= 1

    changed = load_suite(rewritten(suite.path, tmp_path / "s", change))
    firsts = set()
    for case in sorted(set(range(len(suite))) - unknown)[::3]:
        [difference] = replay_suite(changed, case=case).differences
        assert difference.outcome.differing == 128 * 16
        firsts.add(difference.outcome.first.endswith(", which depends on rounding"))
    assert firsts == {False, True}


@pytest.mark.parametrize(("status", "completed"), [(0, 0), (702, 0), (702, 1)])
def test_a_wait_that_runs_out_is_no_agreement_with_an_instruction_that_the_model_refuses(status, completed):
    def refuse():
        raise InputError("n = 7")

    with pytest.raises(Unmodelled, match=r"no such instruction: n = 7; recorded: hardware never completes it"):
        judged(status, completed, RULES["tcgen05.idesc"], refuse)
    _, outcome = judged(715, 0, RULES["tcgen05.idesc"], refuse)
    assert (outcome.compared, outcome.differing) == (1, 0)
    _, outcome = judged(status, completed, RULES["tcgen05.idesc"], lambda: 1)
    assert "hardware never completes it | model runs it" in outcome.first


def test_a_refused_shape_that_never_completed_is_counted(captured, tmp_path):
    path, unknown = captured("tmem_layouts")
    case = int(np.argmax(load_suite(path).arrays["status"] == 715))

    def change(arrays):
        arrays["status"][case] = 702

    report = replay_suite(load_suite(rewritten(path, tmp_path / "s", change)))
    assert report.differing == 0
    assert {number for number, _ in report.unmodelled} == unknown | {case}
    assert "never completes it" in dict(report.unmodelled)[case]


def test_an_mma_that_does_nothing_leaves_no_earlier_result(monkeypatch, tmp_path):
    """The reference kernel fills D and tensor memory first, so that nothing of the launch before is taken for an
    answer.
    """
    chosen = gemm.variants(ARCH)[:2]
    device = Card()
    with device.plugged_in(monkeypatch):
        monkeypatch.setattr(gemm, "variants", lambda arch: chosen)
        gemm.tcgen05_gemm(device, tmp_path / "right")
        monkeypatch.setattr(card, "tcgen05_mma", lambda *arguments, **more: None)
        gemm.tcgen05_gemm(device, tmp_path / "idle")
    assert replay_suite(load_suite(tmp_path / "right" / "tcgen05_gemm")).same
    idle = load_suite(tmp_path / "idle" / "tcgen05_gemm")
    assert (idle.arrays["d"] == contents.SENTINEL).all()
    assert replay_suite(idle).differing == 2


# ---- the manual instead of the model -------------------------------------------------------------------------------------------------


def told(monkeypatch, tmp_path, chosen, answers):
    suites.write_operands(answering(monkeypatch, answers), tmp_path, "kit", "a test", 1, chosen)
    return replay_suite(load_suite(tmp_path / "kit"))


def answer(probe, descriptor, **more):
    return {"status": 0, "completed": 1, "tensor_base": [0], "words": pretend(draw.operand_case(probe, descriptor), probe, **more)}


def test_a_card_that_follows_the_manual_agrees_with_the_model(monkeypatch, tmp_path):
    """Sparse operands with 64 rows a CTA too, of which the model cannot place the metadata: they are the same
    everywhere.
    """
    rng = random.Random(2)
    chosen = [("", p, draw.descriptor(rng, p.dtype, p.rows, p.stored_k, p.major, code)) for p in PROBES for code in draw.CODES[::2]]
    report = told(monkeypatch, tmp_path, chosen, [answer(p, w) for _, p, w in chosen])
    assert report.same, report.text()
    assert report.cases == 24


def test_a_card_that_lays_d_out_otherwise_is_told_from_one_that_reads_otherwise(monkeypatch, tmp_path):
    probe, descriptor = PROBES[0], words.matrix_descriptor(0x4000, 16, 1024, 2)
    layout = told(
        monkeypatch, tmp_path, [("", probe, descriptor)], [answer(probe, descriptor, flip=lambda lane, column: (lane ^ 16, column))]
    )
    assert layout.differences[0].outcome.rule.name == "tcgen05.accumulator"
    assert layout.differences[0].outcome.what == "cells"
    other = words.matrix_descriptor(0x4000, 16, 1024, 4)
    reading = told(monkeypatch, tmp_path, [("", probe, descriptor)], [answer(probe, other)])
    assert reading.differences[0].outcome.rule.name.startswith("operand.")
    assert reading.differences[0].outcome.what == "elements"


def test_an_instruction_that_the_model_refuses_and_hardware_runs_says_whether_the_formulas_hold(monkeypatch, tmp_path):
    probe = draw.Probe("tf32", "tf32", "B", "MN", 128, 32)
    descriptor = words.matrix_descriptor(0x4000, 2048, 1024, 2)
    report = told(monkeypatch, tmp_path, [("swizzle", probe, descriptor)], [answer(probe, descriptor)])
    first = report.differences[0].outcome.first
    assert re.search(r"hardware runs it \| model: no such instruction: .*I602.*; it reads where the formulas say$", first), first
    other = words.matrix_descriptor(0x4400, 2048, 1024, 2)
    report = told(monkeypatch, tmp_path, [("swizzle", probe, descriptor)], [answer(probe, other)])
    assert report.differences[0].outcome.first.endswith("; it reads elsewhere than the formulas say")


def test_rows_that_read_what_is_not_the_probes_do_not_count(monkeypatch, tmp_path):
    """Row 0 begins below 0x400, where the system's memory lies: it may say anything, and the other rows must still
    agree.
    """
    probe, descriptor = draw.Probe("f16", "bf16", "A", "K", 128, 64), words.matrix_descriptor(0x3F0, 128, 1024, 2)
    further = words.matrix_descriptor(0x7F0, 128, 1024, 2)  # the same pattern 1 KiB, 512 elements, further on
    told(monkeypatch, tmp_path, [("window", probe, further)], [answer(probe, further)])

    def change(arrays):
        arrays["descriptor"][0] = descriptor
        for name in ("raw", "element"):
            moved = arrays[name] > 0
            arrays[name][moved] -= 512
            arrays[name][moved & (arrays[name] < 512)] = 12345

    report = replay_suite(load_suite(rewritten(tmp_path / "kit", tmp_path / "moved", change)))
    assert report.same, report.text()

    def wrong(arrays):
        change(arrays)
        arrays["element"][16] += 1

    report = replay_suite(load_suite(rewritten(tmp_path / "kit", tmp_path / "wrong", wrong)))
    assert report.differences[0].outcome.first.startswith("row 1, k 0: hardware read shared 0x")


@pytest.mark.parametrize("copy", [1, 2, 3])
def test_any_copy_of_a_scale_factor_may_be_the_one_that_counts(copy, monkeypatch, tmp_path):
    chosen = [c for c in suites.scale_cases() if c["probe"]["m"] == 128 and c["probe"]["n"] == 64 and c["group"] == 1][::11]
    card = Card(copy)
    with card.plugged_in(monkeypatch):
        suites.write_tensor_probe(card, tmp_path, "kit", "tmem_scale", "a test", 0, chosen, {"owner_words": suites.owners_of(chosen)})
    report = replay_suite(load_suite(tmp_path / "kit"))
    assert report.same, report.text()
    assert report.cases >= 3


# ---- the kit ---------------------------------------------------------------------------------------------------------------------------


def test_contents_are_not_freed_while_a_pass_is_being_prepared():
    card, case = Card(), suites.layout_case("f16", "bf16", 128, 32)
    kept = machine.store(card)
    for last in (399, 400, 401):
        kept.kept.clear()
        for i in range(last):
            kept.kept[str(i)] = None
        assert machine.run_machine(card, case)["completed"] == 1
        assert len(kept.kept) <= 404


def test_wide_tensors_fit_the_memory_that_holds_them_and_scattered_rows_differ():
    rng = random.Random(3)
    for _ in range(300):
        case = transfers.wide(rng)
        assert case["global_strides"][-1] * case["global_dim"][-1] <= transfers.TENSOR_BYTES
        assert len(set(transfers.gathered(rng, store=True)["coordinates"][1:])) == 4


def test_contents_hold_what_the_comparisons_take_for_granted():
    """The numbers of rows, the sentinel, the tags: said once by the kit, once by the comparisons."""
    from smemsim.evidence.kinds import tcgen05 as blackwell
    from smemsim.evidence.kinds import tensor_memory as tensor_memory_operands

    assert contents.SENTINEL == blackwell.SENTINEL
    assert suites.UNTOUCHED == blackwell.UNTOUCHED
    tags = contents.tensor_image([[0, 512, "tags", "u8", 0]])
    assert tags[5, 7] >> 8 & 0xFF == 5 * tensor_memory_operands.ROW_BYTES + 7 * 4 + 1 & 0xFF


def test_a_map_that_the_architecture_has_not_is_told_from_a_damaged_trace(tmp_path):
    """The suites of edited maps run on Blackwell too, where some codes are legal on another architecture only."""
    source = ROOT / "golden" / "sm_90a" / "tma_swizzle_bits"
    shutil.copytree(source, tmp_path / "trace")
    manifest = json.loads((tmp_path / "trace" / "manifest.json").read_text())
    device = manifest["device"] | {"compute_capability": "10.0", "gpu": "a relabelled trace, for this test only"}
    (tmp_path / "trace" / "manifest.json").write_text(json.dumps(manifest | {"arch": "sm_100a", "device": device}))
    report = replay_suite(load_suite(tmp_path / "trace"))
    assert any("recorded: hardware runs it" in why for _, why in report.unmodelled)
