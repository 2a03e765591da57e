"""The documentation: complete, without dead links, and saying what the code says. `python -m tools.docs --check`
(.ci/docs) is the same by hand.
"""

import pydoc
import re
import textwrap

import click
import pytest

import smemsim
from places import ROOT
from smemsim.core.spec.findings import CODES
from smemsim.core.tables import keys_of
from smemsim.diagnosis.scenario import STEPS, TABLES, Operand
from smemsim.evidence.launches import ARGUMENTS, ARRAY_KEYS, BESIDE, KEYS
from strategies import is_night
from tools import docs
from tools.docs_tables import COMMANDS

PAGES = docs.pages()
FINDINGS = {page.stem: page for page in docs.EXPLANATIONS.glob("*.md")}
CHAPTERS = ["Cause", "On hardware", "Bad", "Fixed", "When it is not reported", "Evidence"]
# How each item of "When it is not reported" begins.
KINDS = ["Correct", "A remark instead", "Another code instead", "Not checked", "Missed", "Not modelled"]
# The same in the column "reported as", if the chapter is a table.
REPORTED_AS = {"nothing": "Correct", "a remark": "A remark instead", "*not checked*": "Not checked"}


def text_of(*parts):
    return ROOT.joinpath("docs", *parts).read_text()


BY_NIGHT = (ROOT / "docs" / "tutorial.md",)


# ---- the tables and the examples; those that need a program that is missing here are left as they are


def test_the_tables_are_what_the_code_says():
    stale = [page.name for page in PAGES if docs.with_tables(page.read_text(), page) != page.read_text()]
    assert stale == [], "run python -m tools.docs --tables"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_print_what_the_page_says(page):
    if page in BY_NIGHT and not is_night():
        pytest.skip("by night, and in .ci/docs: it compiles four programs")
    assert docs.with_examples(page.read_text(), page) == page.read_text(), f"run python -m tools.docs {page.relative_to(ROOT)}"


def test_a_changed_output_is_stale():
    page = FINDINGS["D308"]
    text = page.read_text()
    assert docs.with_examples(text.replace("D308  ", "D309  "), page) == docs.with_examples(text, page) != text.replace("D308  ", "D309  ")


def test_a_value_that_a_comment_says_is_held():
    with pytest.raises(docs.Stale, match="is 2, the comment says 3"):
        docs.with_examples("```python\n1 + 1  # 3\n```\n", ROOT / "README.md")


# ---- findings


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_page_with_a_bad_and_a_fixed_example(code):
    """The output of the bad example has the code, and that of the fixed one has not. A chapter for another language
    ("In Triton") has both examples.
    """
    text = FINDINGS[code].read_text()
    assert text.startswith(f"# {code} {CODES[code].slug}\n\n<!-- finding {code} -->\n")
    _, *chapters = re.split(r"^## ", text, flags=re.MULTILINE)
    names = [chapter.partition("\n")[0] for chapter in chapters]
    assert [name for name in names if not name.startswith("In ")] == CHAPTERS
    printed = {
        name: [body for language, _, body in docs.BLOCK.findall(text) if language == "console"]
        for name, text in zip(names, chapters, strict=True)
    }
    for bad, fixed in (
        (printed["Bad"], printed["Fixed"]),
        *((told[:1], told[1:]) for name, told in printed.items() if name.startswith("In ")),
    ):
        assert re.search(rf"\b{code}\b", "".join(bad)), "the bad example does not give the code"
        assert fixed, "no fixed example is run"
        assert not re.search(rf"\b{code}\b|^WRONG", "".join(fixed), flags=re.MULTILINE), "the fixed example gives the code, or is wrong"


@pytest.mark.parametrize("code", CODES)
def test_a_page_says_of_each_silent_case_why_it_is_silent(code):
    chapter = re.search(r"^## When it is not reported\n\n(.*?)^## ", FINDINGS[code].read_text(), flags=re.MULTILINE | re.DOTALL)[1]
    first, *tables = re.split(r"^(?=### )", chapter, flags=re.MULTILINE)  # one for each kind of kernel
    assert not tables or not re.search(r"^[-|] ", first, flags=re.MULTILINE)
    for part in tables or [first]:
        kinds = re.findall(r"^- \*\*([^*]*):\*\* ", part, flags=re.MULTILINE)
        rows = re.findall(r"^\| (?!case \|)[^|]* \| ([^|]*) \|", part, flags=re.MULTILINE)
        kinds += [REPORTED_AS[row] for row in rows]
        assert kinds == sorted(kinds, key=KINDS.index)
        assert len(kinds) == len(re.findall(r"^(?:- |\| (?!case \|))", part, flags=re.MULTILINE)) > 0


def test_there_is_no_page_without_a_code():
    assert FINDINGS.keys() == CODES.keys()


# ---- completeness


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_its_page(name):
    text = text_of("commands", f"{name}.md")
    assert f"<!-- options {name} -->" in text
    assert re.search(rf"^(?:\$ )?smemsim {name}\b", text, re.MULTILINE), "no example"
    for parameter in COMMANDS[name].get_params(click.Context(COMMANDS[name])):
        if isinstance(parameter, click.Option):
            assert any(option in text for option in parameter.opts), parameter.name


def test_every_file_key_is_documented():
    scenario, launch = text_of("reference", "scenario-files.md"), text_of("reference", "launch-files.md")
    missing = [key for table in [*TABLES.values(), *STEPS.values(), Operand] for key in keys_of(table) if f"`{key}`" not in scenario]
    of_launch = [*KEYS, *ARRAY_KEYS, *ARGUMENTS, *(key for beside in BESIDE.values() for key in beside)]
    missing += [key for key in of_launch if f"`{key}`" not in launch]
    assert missing == []


def test_every_public_name_is_documented():
    text = text_of("reference", "python.md")
    assert [name for name in smemsim.__all__ if f"\n### {name}\n" not in text] == []


def test_every_option_of_the_pytest_plugin_is_documented():
    options = set(re.findall(r"--smemsim-[a-z-]+", (ROOT / "sim" / "smemsim" / "testing" / "plugin.py").read_text()))
    assert [option for option in sorted(options) if option not in text_of("howto", "pytest.md")] == []


# ---- links


def anchors(page):
    """The anchors of a page's headings, as GitHub and the site make them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def dead_links(page):
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose)):
        path, _, anchor = link.partition("#")
        if re.match(r"\w+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if target.parent == ROOT / "docs" / "findings" and target.stem in CODES:
            target = docs.EXPLANATIONS / target.name
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield f"{page.relative_to(ROOT)}: {link}"


# Pages of the checkout that are not of the site: those of traces, of tools, and those that a repository's front page
# shows.
OTHERS = [*ROOT.glob("*.md"), *(page for part in ("golden", "tools", "sim", ".github") for page in (ROOT / part).rglob("*.md"))]


def test_no_link_is_dead():
    assert [link for page in {*PAGES, *OTHERS} for link in dead_links(page)] == []


def test_every_file_of_the_checkout_that_a_page_names_is_there():
    """Except in docs/found and docs/programs.md, whose files are those of other projects."""
    pages = [page for page in {*PAGES, *OTHERS} if not {"found", "programs.md"} & set(page.parts)]
    named = [
        (page, name)
        for page in pages
        for name in re.findall(r"`((?:docs|golden|sim|tests|tools)/[\w./-]+)`", page.read_text())
        if not re.search(r"\b[A-Z]{4,}\b(?!\.md)", name)  # such as golden/ARCH
    ]
    assert len(named) > 50
    assert [f"{page.relative_to(ROOT)}: {name}" for page, name in named if not (ROOT / name).exists()] == []


def test_every_page_is_in_a_contents():
    """Each page of the site is in the toctree of one index."""
    listed = {"index"}
    for index in (ROOT / "docs").rglob("index.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", index.read_text(), re.DOTALL):
            names = [line for line in tree.splitlines() if line and line[0] not in ":["]
            found = [page for name in names for page in (index.parent.glob("*.md") if name == "*" else [index.parent / f"{name}.md"])]
            listed |= {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in found}
    named = {str(page.relative_to(ROOT / "docs").with_suffix("")) for page in PAGES if ROOT / "docs" in page.parents}
    assert {name for name in named if not re.fullmatch(r"findings/[A-Z]\d{3}", name)} == listed


def test_the_readme_is_short():
    assert 6000 <= len((ROOT / "README.md").read_bytes()) <= 8192


def test_help_of_each_public_name_fits_a_screen():
    texts = {name: pydoc.render_doc(getattr(smemsim, name), renderer=pydoc.plaintext) for name in smemsim.__all__}
    assert {name: text.count("\n") for name, text in texts.items() if text.count("\n") > 60} == {}
    assert [name for name, text in texts.items() if "<factory>" in text] == []
    assert "source_line" in texts["Finding"], "the members of a large class are named in its docstring"
    a_map = smemsim.TensorMap.from_bytes(bytes(128))
    assert "problems" in dir(a_map)
    assert "problems" in texts["TensorMap"]
    assert dir(smemsim.TensorMap)[0] == "from_bytes"


def test_python_examples_in_docstrings_of_modules_are_python():
    """An example that begins with an import is whole lines of Python, as a reader copies it."""
    examples = {}
    for path in (ROOT / "sim").rglob("*.py"):
        doc = path.read_text(encoding="utf-8").partition('"""')[2].partition('"""')[0]
        if re.search(r"^    (?:from|import) \w", doc, re.MULTILINE):
            examples[path] = textwrap.dedent("\n".join(line for line in doc.splitlines() if line.startswith("    ") or not line))
    assert len(examples) > 3
    for path, code in examples.items():
        compile(code, str(path), "exec")
