"""The tables of the documentation, each made from what the code says: a function of the page and the marker's
arguments.
"""

from __future__ import annotations

import inspect
import json
import pathlib
import re
import textwrap
from collections.abc import Callable

import click

import smemsim
from smemsim.base.members import MEMBERS, is_called, public_members
from smemsim.cli import main as cli
from smemsim.core.spec.alternatives import ALTERNATIVES, Alternative
from smemsim.core.spec.calibration import CALIBRATION, calibration
from smemsim.core.spec.cards import ALL_CARDS, CARDS
from smemsim.core.spec.compiled import COMPILED
from smemsim.core.spec.disputes import DISPUTE_QUESTIONS, DISPUTES
from smemsim.core.spec.errata import ERRATA_TOPICS
from smemsim.core.spec.evidence import RULES, Rule, kill_matrix
from smemsim.core.spec.findings import CODES
from smemsim.core.spec.grades import Grade
from smemsim.core.spec.published import PUBLISHED
from smemsim.core.spec.rule_texts import RULE_TOPICS
from smemsim.core.tables import keys_of
from smemsim.diagnosis.scenario import STEPS, Operand
from smemsim.diagnosis.scenario import TABLES as SCENARIO_TABLES
from smemsim.evidence.launches import ARGUMENTS, ARRAY_KEYS, BESIDE, KEYS
from smemsim.show.tile import atoms_svg
from tools.evidence.kept import kept, totals
from tools.speeds import table as speed_table

__all__ = ["COMMANDS", "DRAWN", "TABLES"]

ROOT = pathlib.Path(__file__).resolve().parents[1]
Page = pathlib.Path
COMMANDS = {name: found for name in cli.list_commands(click.Context(cli)) if (found := cli.get_command(click.Context(cli), name))}
DRAWN: dict[str, str] = {}  # pictures that tables have made, by file name


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(cell.replace("\n", " ") or " " for cell in row) + " |" for row in rows])


def filled(text: str, mark: str = "") -> str:
    """A paragraph, or with a mark the item of a list, in lines of at most 120 characters."""
    return textwrap.fill(text, 120, initial_indent=mark, subsequent_indent=" " * len(mark), break_long_words=False, break_on_hyphens=False)


LAUNCH_PLACES = {
    "The file": ("Keys at the top of the file.", KEYS),
    "args": ("Each parameter of the kernel is a table. It has one of the keys `array`, `map`, `maps`, `value`, `null`, `scratch` and `bytes`.", None),
    "arrays": ("Each array is a table. Give `dtype`, `shape` and a `distribution`, or a `file`.", ARRAY_KEYS),
}  # fmt: skip


def launch_keys(_: Page) -> str:
    """Every key of launch files, a section for each table."""
    arguments = {name: of for kind, of_kind in ARGUMENTS.items() for name, of in {kind: of_kind, **BESIDE.get(kind, {})}.items()}
    made = []
    for title, (intro, given) in LAUNCH_PLACES.items():
        rows = [
            (f"**`{name}`**" if of.required else f"`{name}`", of.says.replace("|", "\\|"), of.default)
            for name, of in (given or arguments).items()
        ]
        made += [f"## {title}", intro, table(("key", "meaning", "without it"), rows)]
    return "\n\n".join(made)


# What each table of a scenario file is for, and an example of a step.
SCENARIO_PLACES = {
    "scenario": ("The file", "Keys at the top of the file."),
    "tensor": ("", "A tensor in global memory. NAME is yours. So are the names of its axes."),
    "buffer": ("", "A buffer in shared memory. Give its `address`, or `base` and `offset`."),
    "layout": (
        "`layout` of a buffer",
        "Where software puts each element. Only steps of threads need it. Example: rows n of 64 bf16, 128 B apart, with the 128B swizzle:\n\n"
        '```toml\n[buffer.sB.layout]\nswizzle = "128B"\nmn = [[64, 128]]      # 64 rows, 128 B apart\nk = [[128, 1]]        # 128 bytes of a row, each 1 B apart: the contiguous axis\n```\n\n'
        "With the buffer at 0x400, the element (n 1, k 8) is at 0x400 + 128 + 16 = 0x490 before the XOR. The line is 9, so the XOR with 9 % 8 = 1 moves chunk 1 to chunk 0: 0x480.",
    ),
    "map": ("", "A tensor map: the arguments of the driver's encode call, with the driver's names, or its 128 bytes (`raw`)."),
    "meant": ("`meant` of an operand", "The intended content of the operand. `check` compares it with what the descriptors read."),
    "expect": ("[expect]", "The findings that a test expects."),
    "operand": ("An operand: [step.a], [step.b], ...", "Give `words`, or one `word` and what moves its start. Without both, `check` looks for a descriptor that reads the operand."),
}  # fmt: skip
# Kinds of values in the table of keys, shorter than in messages.
SHORT_KINDS = {
    "a text": "text",
    "a whole number below 2^48": "number",
    "a word of at most 64 bits": "64-bit word",
    "a table": "table",
    "a value": "see the meaning",
    "a name, or its number": "name or number",
    "an address, or a name": "address or name",
    "a whole number, or a list of them": "number or list",
    "a whole number of bytes, or a list of them": "number or list",
    "two whole numbers": "[number, number]",
    "two axes: that of rows, that of K": "[name, name]",
    "a list of texts": "list of texts",
    "coordinates, or a list of them": "list, or list of lists",
    "words, one a K step, or a list of them for each block": "list, or list of lists",
    "a whole number, one a K step, or a list of them for each block": "number, list, or list of lists",
}
STEP_EXAMPLES = {
    "tma_load": 'op = "tma_load"\nmap = "tmA"\nto = "sA"\nat = [[0, 0], [64, 0]]      # two boxes: two transfers\noffset = [0, 8192]\nexpect_bytes = 16384',
    "tma_store": 'op = "tma_store"\nmap = "tmD"\nfrom = "sD"\nat = [0, 0]',
    "tma_reduce": 'op = "tma_reduce"\nmap = "tmD"\nfrom = "sD"\nreduce = "add"\nat = [0, 0]',
    "bulk": 'op = "bulk"\nto = "sA"\ntensor = "A"\nbytes = 8192',
    "threads": 'op = "threads"\nto = "sB"\ntensor = "B"\naxes = ["n", "k"]\ncontiguous = "k"          # sB has a layout',
    "mma": 'op = "mma"\nkind = "wgmma"\nm = 64\nn = 64\nk = 16\n\n[step.a]\ndtype = "bf16"\nmajor = "K"\nword = 0x4000004000010040\nk_add = [0, 32, 64, 96]   # four K steps\nmeant = { tensor = "A", axes = ["m", "k"] }',
    "copy": 'op = "copy"\nshape = "32x128b"\nmulticast = "warpx4"\nto_tmem = [0, 4]\n\n[step.a]\ndtype = "ue8m0"\nmajor = "K"\nword = 0x0000400800000000\nstart = "sSFA"\nk_add = [0, 512]\nmeant = { tensor = "SFA", axes = ["m", "s"] }',
}  # fmt: skip


def keys(_: Page) -> str:
    """Every key of scenario files, a section for each table; in bold those that must be there."""
    made = []
    for name, of_table in (SCENARIO_TABLES | STEPS | {"operand": Operand}).items():
        step = f'[[step]] with `op = "{name}"`'
        title, intro = SCENARIO_PLACES.get(name, (step, (inspect.getdoc(of_table) or "").partition(": ")[2]))
        rows = [
            (
                f"**`{key}`**" if of.required else f"`{key}`",
                SHORT_KINDS.get(of.kind.needs, of.kind.needs),
                of.says,
                "" if of.required else of.default,
            )
            for key, of in keys_of(of_table).items()
        ]
        made += [f"## {title or f'[{name}.NAME]'}", *([_filled_parts(intro[:1].upper() + intro[1:])] if intro else [])]
        made += [f"```toml\n[[step]]\n{STEP_EXAMPLES[name]}\n```"] if name in STEPS else []
        made += [table(("key", "value", "meaning", "without it"), rows)]
    return "\n\n".join(made)


def _filled_parts(text: str) -> str:
    return "\n\n".join(part if part.startswith("```") else filled(part) for part in text.split("\n\n"))


def _to_code(number: str, page: Page) -> str:
    """A link to the page of a code where the checkout has it, so that it works on GitHub too: docs/conf.py turns it."""
    depth = len(page.parent.relative_to(ROOT).parts)
    return f"[{number}]({'../' * depth}sim/smemsim/explanations/{number}.md)"


def findings(page: Page) -> str:
    """Every code, with a link to its page."""
    rows = [(_to_code(c.number, page), c.slug, str(c.severity), c.says) for c in CODES.values()]
    return table(("code", "name", "severity", "meaning"), rows)


def finding(_: Page, number: str) -> str:
    """The head of a code's page."""
    c = CODES[number]
    grave = {
        "trap": "refused, a fault, a hang, or undefined",
        "wrong": "silently wrong data",
        "luck": "right today, not guaranteed",
        "note": "worth knowing",
    }
    return filled(f"**{c.severity}** ({grave[str(c.severity)]}): {c.says}.")


def evidence(_: Page) -> str:
    """The rules by topic, with a table of contents and an index. Each has its statement, an example, what smemsim does,
    and the evidence.
    """
    titles = [topic.title for topic in RULE_TOPICS] + ["Index of names"]
    made = ["\n".join(f"- [{title}](#{_anchor(title)})" for title in titles)]
    for topic in RULE_TOPICS:
        made += [f"## {topic.title}", *([filled(_marked(topic.intro))] if topic.intro else [])]
        for name in topic.rules:
            r = RULES[name]
            items = [
                f"Example: {_marked(r.example)}",
                f"In smemsim: {_marked(r.reports)}",
                f"Evidence: {_grades(r)}.{f' Recorded cases: {_listed(r.traces)}.' if r.traces else ''}",
                f"Source: {_marked(r.source)}.",
            ]
            made += [f"### {r.title}", f"Rule `{name}`", filled(_marked(r.statement)), "\n".join(filled(item, "- ") for item in items)]
    index = [(f"`{name}`", f"[{r.title}](#{_anchor(r.title)})") for name, r in sorted(RULES.items())]
    made += ["## Index of names", "Findings, `--assume` and `smemsim evidence` name rules by these names.", table(("name", "rule"), index)]
    return "\n\n".join(made)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _anchor(title: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


_CODE = re.compile(rf"\b({'|'.join(CODES)})\b")
_PTX = re.compile(
    r"(?<![\w`/.%])((?:tcgen05|wgmma|mbarrier|barrier|bar|fence|cp|ld|st|atom|red|griddepcontrol|tensormap|elect|shfl|vote|match|redux|mma|sust|wmma)"
    r"(?:(?:\.|::)\w+)+|ldmatrix|stmatrix|movmatrix|membar|expect_tx|commit_group|wait_group|dealloc|relinquish_alloc_permit|\.[a-z]\w+(?:(?:\.|::)\w+)*|shared::cluster)(?![\w`(])"
)


def _marked(text: str) -> str:
    """Text for a page: PTX names as code, finding codes as links."""
    text = text.replace("docs/found/ptxas.md", "[details](../found/ptxas.md)")
    pieces = re.split(r"(`[^`]*`|\[[^]]*\]\([^)]*\))", text)
    return "".join(
        p if i % 2 else _CODE.sub(r"[\1](../../sim/smemsim/explanations/\1.md)", _PTX.sub(r"`\1`", p)).replace("*", "\\*")
        for i, p in enumerate(pieces)
    )


def _grades(rule: Rule) -> str:
    """The grades of a rule, architectures with the same one together: "measured on sm_90a, inferred on sm_100a and
    sm_103a".
    """
    by: dict[str, list[str]] = {}
    for arch, grade in rule.grades.items():
        by.setdefault(f"*{grade}*", []).append(arch)
    return ", ".join(f"{grade} on {' and '.join([', '.join(archs[:-1])] * bool(archs[1:]) + archs[-1:])}" for grade, archs in by.items())


def errata(_: Page) -> str:
    """Each erratum by topic: what the document says, what is so, what shows it, and the rule that it belongs to."""
    made = ["\n".join(f"- [{title}](#{_anchor(title)})" for title in ERRATA_TOPICS)]
    for title, of in ERRATA_TOPICS.items():
        made.append(f"## {title}")
        for e in of:
            is_document = e.document.startswith(("PTX ISA", "CUDA", "cuda", "cuTensorMap"))
            said = f"{'Document' if is_document else 'Source'} ({e.document}): {_sentence(e.says)}"
            says = "Document: No document mentions it." if e.document == "none" else said
            shows = [*([f"recorded cases `{e.trace}`"] if e.trace else []), *([e.seen] if e.seen else [])]
            rule = f"[{RULES[e.rule].title}](rules.md#{_anchor(RULES[e.rule].title)})." if e.rule else ""
            items = [
                _marked(says), f"{'Hardware' if e.trace or ' H' in e.seen else 'Programs'}: {_marked(_sentence(e.but))}", f"Evidence: {_marked('; '.join(shows))}.",
                *([f"Rule: {rule}"] if rule else []),
            ]  # fmt: skip
            made += [f"### {e.topic}", "\n".join(filled(item, "- ") for item in items)]
    return "\n\n".join(made)


# Words that stay as they are at the beginning of a sentence.
SMALL = ("ptxas", "smemsim", "elemtype", "y", "mapa", "mbarrier")


def _sentence(text: str) -> str:
    """A text that begins with a capital letter and ends with a full stop. Names keep their first letter."""
    first = text.partition(" ")[0]
    return f"{text if re.search(r'[A-Z_.0-9]', first) or first in SMALL else text[0].upper() + text[1:]}."


def disputes(_: Page) -> str:
    """Each dispute by topic: the question, what smemsim assumes, the source of that, and what other sources say."""
    missing = DISPUTES.keys() ^ {name for of in DISPUTE_QUESTIONS.values() for name in of}
    if missing:
        raise ValueError(f"give these disputes a question in DISPUTE_QUESTIONS of core/spec/disputes.py: {', '.join(sorted(missing))}")
    made = ["\n".join(f"- [{title}](#{_anchor(title)})" for title in DISPUTE_QUESTIONS)]
    for title, of in DISPUTE_QUESTIONS.items():
        made.append(f"## {title}")
        for name, question in of.items():
            d = DISPUTES[name]
            items = (f"smemsim assumes: {_sentence(d.takes)}", f"Source: {_sentence(d.source)}", f"Other sources: {_sentence(d.other)}")
            made += [f"### {question}", "\n".join(filled(_marked(item), "- ") for item in items), f"In `smemsim.DISPUTES`: `{name}`."]
    return "\n\n".join(made)


# The page's headings for the groups of tools/bench.py.
SPEED_GROUPS = {
    "commands": "Whole commands",
    "run": "Launches",
    "check": "check",
    "plan": "plan",
    "solve": "find_descriptors",
    "explain": "Explanations of a result",
    "MMA": "Matrix instructions",
    "TMA": "TMA",
    "tensor maps": "Tensor maps",
    "addresses": "Operand addresses",
    "campaign": "campaign",
}
# The bench keeps old names of rows, so that runs can be compared. The page has today's words.
SPEED_WORDS = (
    (r"\bunwatched\b", "without the sanitizer"),
    (r"\bwatched\b|\bthe sanitizer on\b", "with the sanitizer"),
    (r"^closures$", "the interpreter"),
    (r"\bjudged\b", "checked"),
    (r", with owners\b", ", with the writer of each byte kept"),
    (r" with owners, ", ", with the writer of each byte kept, "),
    (r", beside (pycute|tensor-layouts|Triton|mmasim)", r", compared with \1"),
    (r"^of (\d+)$", r"\1 of them"),
    (r"^in one$", "one process"),
    (r"^half of (it|them)$", "half of the work"),
    (r"^the same alone$", "the same without smemsim"),
    (r"^later ones$", "later runs"),
)
# Series of measurements by what their notes say, and what the page says of each.
SPEED_SERIES = {
    "A": ("", ""),
    "B": ("of a later run, 2026-11-27", "27 November 2026, the machine of A."),
    "C": ("of a later run, 2026-11-28", "28 November 2026, the machine of A. Rows with Triton: Triton 3.9.0, and BLAS with one thread."),
    "D": ("another machine (AMD EPYC)", "23 November 2026, another machine (AMD EPYC) with no other work."),
    "E": ("beside much other work", "27 November 2026, the machine of A with much other work. It delays one process more than the other. These rows are not precise."),
    "F": ("with seven processes beside it", "28 November 2026, the machine of A while seven other processes ran. These rows are not precise."),
}  # fmt: skip
SPEED_CLOCKS = ("processor time of the busier process", "processor time of all processes", "processor time")
# What a note says that results were compared, or found: kept in the words of the page.
SPEED_CHECKS = (
    (r"equal: (?:in the sweep itself, by samples)", "samples are equal"),
    (r"equal: the exact sum", "the exact sum is equal"),
    (r"equal: all ([\d,]+) ([a-z ]+?) of normally distributed numbers; of any bits 0 of ([\d,]+) differ", r"all \1 \2 are equal, and \3 of random bits"),
    (r"equal: all ([\d,]+ )?([a-z ]+)", r"all \1\2 are equal"),
    (r"the same bytes", "all bytes are equal"),
    (r"bits of an H200 by `smemsim replay`", "the bits of an H200"),
    (r"([\d,]+) values compared, no difference", r"all \1 values are equal"),
    (r"([\d.e+-]+) of the largest element beside torch", r"torch differs by \1 of the largest element"),
    (r"no findings, as it should be", "no findings"),
    (r"(\d+) findings, (\w+)", r"\1 findings (\2)"),
    (r"(\d+) descriptors found, the tile's own among them", r"\1 descriptors found"),
    (r"(\d+) choices", r"\1 plans found"),
    (r"the baseline from (\d+) cases", r"the time of the baseline is estimated from \1 cases"),
)  # fmt: skip
SPEED_GOALS = (
    (r"asked for: ([\d.]+)x, MISSED", lambda m: f"goal {speed_table.ratio(float(m[1]))}: not reached"),
    (r"asked for: ([\d.]+ \w+ a second), MISSED", lambda m: f"goal {m[1]}: not reached"),
    (r"(\d+(?:\.\d)?)x the time is (?:linear|a constant rate)", lambda m: f"expected {m[1]}x the time"),
)


def speeds(_: Page) -> str:
    """What `python tools/bench.py --peers --json` printed when it was last kept, by group; nothing is timed here."""
    of, results = speed_table.of_json(json.loads((ROOT / "tools" / "speeds" / "measured.json").read_text()))
    if missing := {r.group for r in results} - SPEED_GROUPS.keys():
        raise ValueError(
            f"give these groups of tools/bench.py a heading in SPEED_GROUPS of tools/docs_tables.py: {', '.join(sorted(missing))}"
        )
    first = f"{of['date']}, {of['processor']}, {of['cores']} cores, Python {of['python']}, numpy {of['numpy']}, numba {of['numba']}."
    made = [
        "The series of measurements:",
        "\n".join(filled(f"{name}: {says or first}", "- ") for name, (_, says) in SPEED_SERIES.items()),
    ]
    for group, title in SPEED_GROUPS.items():
        rows = [_speed_row(r) for r in results if r.group == group and r.speed is not None]
        header = ("what", "time", "rate", "compared with", "its time", "ratio", "expected", "results", "series")
        made += [f"## {title}", table(header, [tuple(cell.replace("|", "/") for cell in row) for row in rows])]
    return "\n\n".join(made)


def _speed_row(r: speed_table.Result) -> tuple[str, ...]:
    """One row of the page: what the bench's note says, each fact in a column of its own."""
    *cells, note = speed_table.cells(r)
    series = [name for name, (mark, _) in SPEED_SERIES.items() if mark and mark in note]
    clock = next((clock for clock in SPEED_CLOCKS if clock in note), "")
    goal = next((say(found) for pattern, say in SPEED_GOALS if (found := re.search(pattern, note))), "")
    checks, left = [], note
    for pattern, say in SPEED_CHECKS:
        if found := re.search(pattern, left):
            checks.append(found.expand(say))
            left = left.replace(found[0], "")
    measured = f"{(series or ['A'])[-1]}{clock and ', ' + clock}"
    return (*map(_in_todays_words, cells), goal, "; ".join(checks), measured)


def _in_todays_words(cell: str) -> str:
    for old, new in SPEED_WORDS:
        cell = re.sub(old, new, cell)
    return cell


# What a user waits for: how the page calls it, and the row of the bench.
WAITED_FOR = {
    "decode a descriptor on the command line": "smemsim decode, the whole process",
    "run a vector addition of Triton, the whole command": "smemsim run, Triton's add, the whole process",
    "run a warp-specialised GEMM of 3 CTAs, the whole command": "smemsim run, a warp-specialised GEMM, the whole process",
    "launch a Triton matmul by `wgmma`, 512 x 512 x 512": "Triton's bf16 product, 512 x 512 x 512, watched",
    "launch a Triton matmul by `tcgen05`, 512 x 512 x 512": "Triton's bf16 product by tcgen05, 512 x 512 x 512, watched",
    "launch a softmax of 4,096 rows": "softmax of rows, watched",
    "launch an SGEMM on CUDA cores, 512 x 512 x 512": "SGEMM on CUDA cores, 512 x 512 x 512, watched",
    "launch 1,000 CTAs of a Triton matmul": "Triton's bf16 product, 1,000 CTAs, watched",
    "check a scenario of 64 K steps": "check, a right kernel, 128 x 128 x 64, 3 stages, 64 iterations",
    "replay all golden traces": "smemsim replay golden/, once",
}


def waited_for(_: Page) -> str:
    """The times of ten things that people do, from the measurements that were kept."""
    _, results = speed_table.of_json(json.loads((ROOT / "tools" / "speeds" / "measured.json").read_text()))
    took = {one.what: one.ours for one in results if one.ours is not None}
    return table(("task", "time"), [(task, speed_table.duration(took[what])) for task, what in WAITED_FOR.items()])


def suites(_: Page) -> str:
    """The rows of golden/README.md."""
    rows = []
    for path in sorted((ROOT / "golden" / "sm_90a").rglob("manifest.json")):
        manifest = json.loads(path.read_text())
        rows.append((f"`{manifest['suite']}`", f"{manifest['cases']:,}", manifest["title"]))
    return table(("suite (`sm_90a/`)", "cases", "what was recorded"), rows)


def atoms(_: Page) -> str:
    """A picture of a whole tile in its swizzle atoms."""
    word, k_add = 0x4000404000010040, [panel + step for panel in (0, 16384) for step in range(0, 128, 32)]
    tile = smemsim.TilePicture.of(word, arch="sm_100a", dtype="bf16", major="K", rows=64, k=16, k_add=k_add, mn_add=[0, 8192])
    DRAWN["atoms.svg"] = atoms_svg(tile) + "\n"
    says = (
        "The tile of a descriptor, 128 x 128 bf16 in 8 x 128 B atoms stacked along M first, with the subtiles that each instruction reads"
    )
    return f"![{says}](../pictures/atoms.svg)"


# ---- commands


def commands(_: Page) -> str:
    rows = [(f"[`smemsim {name}`]({name}.md)", command.get_short_help_str(200)) for name, command in COMMANDS.items()]
    return table(("command", "what it does"), rows)


# What the argument of a command is; options have this text in the command itself.
ARGUMENTS_ARE = {
    "cache": "`where` prints the folder, `size` its size (the default). `fill` compiles the loops that most commands need. `clear` removes all entries.",
    "campaign": "The spaces to test. `--list` prints them.",
    "capture": "The suites to record. Default: all for this card.",
    "check": "Scenario files, .toml or .json.",
    "decode": "A descriptor word, the 128 bytes of a tensor map, a call that encodes a map, a CuTe layout, a file with these, or `-` for standard input.",
    "evidence": "The name of a rule. Default: all rules.",
    "exec": "The program and its arguments, after `--`.",
    "explain": "Codes or names of findings: X003, missing-proxy-fence. Default: list all codes.",
    "map": "A descriptor word, a tensor map, a call that encodes a map, a CuTe layout, a file with these, or `-` for standard input.",
    "plan": "The tile: rows x K of one operand, or M x N x K of a product.",
    "replay": "Traces, or folders of traces. Default: `golden`.",
    "run": "A PTX file, a launch file, or a folder with `kernel.ptx` and `launch.json`.",
    "show": "A descriptor word, a scenario file, `patterns` (all swizzles), or `banks` (bank conflicts of an access).",
    "solve": "A scenario file. Or two files: a dump of shared memory, and the operand (`.npy`, rows x k).",
}


def options(_: Page, name: str) -> str:
    """Usage and options of a command, as `--help` has them."""
    command = COMMANDS[name]
    context = click.Context(command, info_name=f"smemsim {name}", parent=click.Context(cli, **cli.context_settings))
    usage = "```text\n" + " ".join(["smemsim", name, *command.collect_usage_pieces(context)]) + "\n```"
    rows = []
    for parameter in command.params:  # --help, which click makes at first use and keeps, stands last
        record = parameter.get_help_record(context)
        if record is not None:
            says = record[1] or ARGUMENTS_ARE[name]
            rows.append((f"`{record[0].replace('|', '&#124;')}`" if "|" not in record[0] else f"<code>{record[0].replace('|', '&#124;').replace('<', '&lt;')}</code>", says.replace("|", "\\|")))  # fmt: skip
    rows.append(("`-h, --help`", "Show this message and exit."))
    return f"{usage}\n\n{table(('option', 'what it does'), rows)}"


# ---- Python

GROUPS: dict[str, tuple[str, ...]] = {
    "Descriptors and tensor maps": ("SmemDescriptor", "InstrDescriptor", "TensorMap", "LboMode", "Swizzle", "build_sequence", "tensormap_replace", "INSTR_RULES", "TENSOR_MAP_RULES", "BULK_TRAPS"),
    "Layouts": ("operand_addresses", "CuteLayout", "find_descriptors", "Answer", "FoundDescriptor"),
    "Shared memory and TMA": ("SharedMemory", "GlobalMemory", "Operand", "Transfer", "tma_load", "tma_store", "tma_reduce", "tma_prefetch", "tma_load_bytes", "tma_store_bytes", "BulkTransfer", "bulk_copy", "bulk_bytes", "bulk_prefetch", "bulk_reduce", "Cluster", "ClusterAddress", "Delivery", "mapa", "multicast"),
    "Tensor memory": ("TensorMemory", "TmemAccess", "TmemAddress", "AccumulatorLayout", "ATmemLayout", "MetadataLayout", "ScaleLayout", "tmem_put", "tmem_take", "tcgen05_cp", "tcgen05_shift"),
    "Matrix instructions and arithmetic": ("mma", "wgmma", "wgmma_registers", "tcgen05_mma", "MmaResult", "dot_product", "DotProduct", "DotTerm", "element_value", "from_float64", "to_float64"),
    "Plans": ("plan", "plans", "Plan", "Choice", "IllegalPlan"),
    "Bank conflicts": ("conflict_free_layouts", "BankAccess", "ConflictAnswer", "ConflictFree"),
    "Scenarios and findings": ("check", "Scenario", "Report", "Finding", "CheckFinding", "RunFinding", "Severity", "TilePicture", "tile_svg", "show_html", "explain_difference", "Diagnosis", "explain_product", "ProductExplanation"),
    "Running kernels": ("Gpu", "DeviceArray", "Run", "launch_file", "launch_triton"),
    "Evidence": ("RULES", "Grade", "ERRATA", "DISPUTES", "sweep", "CampaignReport"),
    "Errors": ("SmemsimError", "InputError", "TableError", "OutsideError", "AllocationError", "BrokenRule", "TensorMapError", "HardwareTrap", "Unmodelled", "TraceError", "FindingsError", "CudaError", "InternalError", "NotKeptWarning"),
}  # fmt: skip


def python(_: Page) -> str:
    """The public names by topic, each with its signature and docstring."""
    missing = set(smemsim.__all__) - {name for names in GROUPS.values() for name in names}
    if missing:
        raise ValueError(f"give these public names a place in GROUPS of tools/docs_tables.py: {', '.join(sorted(missing))}")
    made = []
    for title, names in GROUPS.items():
        made += [f"## {title}"] + [_name(name) for name in names]
    return "\n\n".join(made)


SAME_CLASS = {"CheckFinding": "Finding", "RunFinding": "Finding"}


def _name(name: str) -> str:
    value = getattr(smemsim, name)
    if name in SAME_CLASS:
        if value is not getattr(smemsim, SAME_CLASS[name]):
            raise ValueError(f"{name} is a class of its own now: take it out of SAME_CLASS of tools/docs_tables.py")
        return f"### {name}\n\nAnother name of [{SAME_CLASS[name]}](#{SAME_CLASS[name].lower()})."
    if isinstance(value, type) or callable(value):
        made = MADE_HERE if name in MADE else f"```text\n{_signature(name, value)}\n```"
        return "\n\n".join([f"### {name}", made, *_told(value), *_in_full(name, value), *_members(value)])
    kind = next(base.__name__ for base in type(value).__mro__ if base in (dict, list, tuple))
    return f"### {name}\n\n{COLLECTIONS[name]}\n\nIt is a `{kind}` with {len(value)} entries."


MADE_HERE = "smemsim makes these objects, so the constructor is not shown."
MADE = {"Answer", "CampaignReport", "ConflictAnswer", "ConflictFree", "Diagnosis", "DotProduct", "DotTerm", "Finding", "FoundDescriptor",
        "MmaResult", "ProductExplanation", "Report", "Run"}  # fmt: skip
IN_FULL = {"Gpu": ("launch",)}  # methods with a section of their own


def _in_full(name: str, value: object) -> list[str]:
    """Sections of methods, each with its signature and docstring."""
    methods = [(f"{name}.{one}", getattr(value, one)) for one in IN_FULL.get(name, ())]
    return [part for title, method in methods for part in (f"#### {title}", f"```text\n{_signature(title, method)}\n```", *_told(method))]


# What the public collections hold.
COLLECTIONS = {
    "INSTR_RULES": "The rules that a `tcgen05` instruction descriptor must obey. Each has `name`, `text`, `source` and `grade`.",
    "TENSOR_MAP_RULES": "The rules by which the driver accepts a tensor map, by name. Each has `text`, `source`, `grades`, and the `code` of its finding.",
    "BULK_TRAPS": "Why a bulk copy traps, by name: the `cuda_error`, with `grade` and `source`.",
    "RULES": "The rules about hardware, by name ([page](../evidence/rules.md)). Each has `title`, `statement`, `example`, `reports`, `grades`, `source` and `traces`.",
    "ERRATA": "The points in which documents differ from hardware ([page](../evidence/errata.md)).",
    "DISPUTES": "The questions about which sources disagree, by topic ([page](../evidence/disputes.md)).",
}


def _signature(name: str, value: object) -> str:
    """A call as Python would accept it: annotations without quotes, defaults as literals."""
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return name
    parameters = list(signature.parameters.values())
    lines = [_parameter(p) for p in parameters]
    named = [p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters]
    if True in named and not any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        lines.insert(named.index(True), "*")
    returned = signature.return_annotation
    end = "" if isinstance(value, type) or returned is inspect.Signature.empty else f" -> {_annotation(returned)}"
    whole = f"{name}({', '.join(lines)}){end}"
    return whole if len(whole) <= 110 else f"{name}(\n" + "\n".join(f"    {line}," for line in lines) + f"\n){end}"


def _parameter(p: inspect.Parameter) -> str:
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(p.kind, "")
    text = f"{star}{p.name}" + ("" if p.annotation is inspect.Parameter.empty else f": {_annotation(p.annotation)}")
    default = "smemsim.__version__" if p.name == "version" else repr(p.default)
    return text if p.default is inspect.Parameter.empty else f"{text} = {default}"


def _annotation(annotation: object) -> str:
    """A type as the source has it, without module names and without quotes around it."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return text.removeprefix('"').removesuffix('"').replace("smemsim.", "")


def _told(value: object) -> list[str]:
    """A docstring: paragraphs as they are, examples and tables as text."""
    doc = (inspect.getdoc(value) or "").partition(f"\n\n{MEMBERS}")[0]
    paragraphs = []
    for paragraph in doc.split("\n\n"):
        lines = paragraph.splitlines()
        if lines and lines[0].startswith("|"):
            paragraphs.append(paragraph)
        elif lines and (
            lines[0].startswith(">>>") or all(line.startswith("    ") for line in lines) or any("    " in line.strip() for line in lines)
        ):
            paragraphs.append(f"```text\n{paragraph}\n```")
        else:
            paragraphs.append(_escaped(paragraph))
    return paragraphs


def _escaped(text: str) -> str:
    """Text as Markdown: what is not in backticks is escaped."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else p.replace("<", "&lt;").replace("*", "\\*").replace("|", "\\|") for p in pieces)


def _members(value: object) -> list[str]:
    """Public methods and properties of a class, a line each."""
    if not isinstance(value, type):
        return []
    rows = []
    for name, member in public_members(value).items():
        doc = inspect.getdoc(getattr(member, "__func__", member)) or ""
        first = _escaped(doc.split("\n\n")[0].replace("\n", " ")).replace("|", "\\|").replace("\\\\|", "\\|")
        given = "(...)" if name in IN_FULL.get(value.__name__, ()) else _parameters(member) if is_called(member) else ""
        rows.append((f"`{name}{given}`", f"{first} See above." if given == "(...)" else first))
    return [table(("member", "what it is"), rows)] if rows else []


def _parameters(member: object) -> str:
    """The parameters of a method without their types: "(byte_offset, *, arch='sm_90a')"."""
    of = getattr(member, "__func__", member)
    parameters = list(inspect.signature(of).parameters.values())[not isinstance(member, staticmethod) :]
    return str(inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parameters])).replace("|", "\\|")


def _standing() -> dict[str, dict[str, list[Alternative]]]:
    """The alternatives of each rule by what stands against them: refuted, published, compilers, undecided."""
    matrix = kill_matrix()
    known = {name for name, about in matrix["programs"].items() if about["witness"]}
    published = {name for one in PUBLISHED for name in one.against}
    compiled = {name for one in COMPILED for name in one.against}
    made: dict[str, dict[str, list[Alternative]]] = {}
    for name, a in ALTERNATIVES.items():
        is_refuted = bool(known & matrix["alternatives"][name]["refuted_by"].keys())
        kind = "refuted" if is_refuted else "published" if name in published else "compilers" if name in compiled else "undecided"
        made.setdefault(a.rule, {kind: [] for kind in STANDINGS})[kind].append(a)
    return made


STANDINGS = {
    "refuted": "refuted by a witness",
    "published": "open, but contradicted by a published measurement",
    "compilers": "open, but contradicted by the code of a compiler",
    "undecided": "open and undecided: none of the above",
}


def counted(_: Page) -> str:
    """How many alternatives witnesses refute, and which are open."""
    standing = _standing()
    count = {kind: sum(len(of[kind]) for of in standing.values()) for kind in STANDINGS}
    rows = [(says, str(count[kind])) for kind, says in STANDINGS.items()]
    open_ones = [a for of in standing.values() for kind in ("published", "compilers", "undecided") for a in of[kind]]
    here = sum("sm_100a" in _cards_of(a) for a in open_ones)
    told = (
        f"{len(open_ones)} alternatives are open: the last three groups. {here} of them concern sm_100a (B200). `smemsim evidence "
        f"--open sm_100a` prints these {here}, with the experiment that would decide each. The other {len(open_ones) - here} concern only other cards."
    )
    rows.append(("all", str(sum(count.values()))))
    return f"{table(('alternatives of rules that are not measured', 'number'), rows)}\n\n{filled(told)}"


def alternatives(_: Page) -> str:
    """Alternatives of rules about Blackwell: how many of each rule are refuted, contradicted and undecided."""
    standing = _standing()
    rows = [(f"`{rule}`", str(sum(map(len, of.values()))), *(str(len(of[kind])) for kind in STANDINGS)) for rule, of in standing.items()]
    total = ("all", *(str(sum(int(row[n]) for row in rows)) for n in range(1, 6)))
    return table(("rule", "alternatives", *STANDINGS), [*rows, total])


def _cards_of(a: Alternative) -> list[str]:
    """The cards that an alternative concerns: those on which its rule is not measured."""
    return [a.only] if a.only else [arch for arch, grade in RULES[a.rule].grades.items() if grade is not Grade.MEASURED]


def unrefuted(_: Page) -> str:
    """Every alternative that no witness refutes: what the hardware would do, what
    contradicts it, and the experiment.
    """
    rows = [
        (f"`{a}`", _marked(a.sentence), kind if kind != "undecided" else "", ", ".join(_cards_of(a)))
        for of in _standing().values()
        for kind in ("published", "compilers", "undecided")
        for a in of[kind]
    ]
    return table(("alternative", "with it, the hardware would work like this", "contradicted by", "cards"), rows)


def calibrated(_: Page) -> str:
    """Alternatives of measured rules on Hopper: by programs' own checks, only by all bits of the card's output, not
    refuted.
    """
    rows = []
    matrix = calibration()["alternatives"]
    for rule in dict.fromkeys(a.rule for a in CALIBRATION.values()):
        own = [a for a in CALIBRATION.values() if a.rule == rule]
        checks = [a for a in own if matrix[str(a)]["refuted_by"]]
        bits = [a for a in own if a not in checks and matrix[str(a)].get("by_bits")]
        nobody = "; ".join(_marked(a.sentence) for a in own if a not in checks and a not in bits)
        rows.append((f"`{rule}`", str(len(own)), str(len(checks)), str(len(bits)), nobody))
    total = ("all", *(str(sum(int(row[n]) for row in rows)) for n in (1, 2, 3)), "")
    return table(
        (
            "measured rule",
            "alternatives",
            "refuted by a program's own check",
            "refuted only if all bits are compared with the card's output",
            "not refuted",
        ),
        [*rows, total],
    )


def witnesses(_: Page) -> str:
    """The witnesses by program of the corpus: tests, distinct kernels, alternatives that they refute."""
    rows = []
    for matrix in (kill_matrix(), calibration()):
        by_program: dict[str, list[str]] = {}
        for name, about in matrix["programs"].items():
            if about["witness"]:
                program = "launches (golden/sm_90a)" if about.get("silicon", {}).get("suite") else name.partition("::")[0]
                by_program.setdefault(program, []).append(name)
        for program, names in by_program.items():
            first = matrix["programs"][names[0]]
            kernels = {digest for name in names for digest in matrix["programs"][name]["kernels"]}
            refuted = sum(bool(set(names) & row["refuted_by"].keys()) for row in matrix["alternatives"].values())
            origin = f"{first['origin']['project']} {first['origin']['commit'][:7]}" if "origin" in first else "this package"
            rows.append((program, origin, first["arch"], str(len(names)), str(len(kernels)), str(refuted)))
    return table(("program", "project", "card", "tests", "distinct kernels", "alternatives refuted"), rows)


def ran(_: Page) -> str:
    """What was run of others' programs on Blackwell and is kept: checks that passed and
    distinct kernels, by project.
    """
    rows = [
        (
            x["project"], x["arch"], " ".join(x["commits"]) if x["arch"] else "", *(str(x[key]) for key in ("programs", "passed", "failed", "kernels", "own instructions", "products")),
        )
        for x in totals(kept())
    ]  # fmt: skip
    return table(
        ("project", "card", "commits", "programs", "checks passed", "not passed", "distinct kernels", "of these with TMA or tensor memory", "with `tcgen05.mma`"),
        rows,
    )  # fmt: skip


def cards(_: Page) -> str:
    """Every card: the options that take it, and its numbers."""
    rows = []
    for c in ALL_CARDS:
        l2 = c.known("l2_cache_size").value
        usual = "yes" if CARDS[c.arch] is c else ""
        numbers = (f"{c.memory_bytes / 2**30:.1f} GiB", f"{l2 / 2**20:g} MiB" if l2 else "unknown")
        rows.append((f"`{c.names[0]}`", c.arch, usual, str(c.named("multiprocessor_count")), *numbers))
    return table(("`--card`", "architecture", "usual card of it", "multiprocessors", "memory", "L2"), rows)


def card_sources(_: Page) -> str:
    """Where the numbers of each card come from."""
    memory = {c.names[0]: f"; memory: {c.memory_source}" for c in ALL_CARDS if c.memory_source and c.memory_source not in c.source}
    return table(("card", "sources"), [(f"`{c.names[0]}`", f"{c.source}{memory.get(c.names[0], '')}") for c in ALL_CARDS])


def unknown(_: Page) -> str:
    """What is unknown of each card."""
    partly = [c for c in ALL_CARDS if c.unknown]
    everywhere = frozenset.intersection(*(c.unknown for c in partly))
    listed = {c.names[0]: ", ".join(f"`{name}`" for name in sorted(c.unknown - everywhere)) for c in partly}
    rows = [
        ("every card below", ", ".join(f"`{name}`" for name in sorted(everywhere))),
        *((f"`{name}`, in addition", some) for name, some in listed.items() if some),
    ]
    return table(("card", "unknown attributes"), rows)


def projects(page: Page) -> str:
    """The projects of docs/found: the findings of each page, which are its innermost sections, and their codes."""
    rows = []
    for one in sorted(page.parent.glob("*.md"), key=lambda one: one.stem):
        text = one.read_text(encoding="utf-8")
        if title := re.match("# Findings in (.*)", text):
            depths = [len(marks) for marks in re.findall("^(##+) ", text, flags=re.MULTILINE)]
            findings = sum(depth >= after for depth, after in zip(depths, [*depths[1:], 0], strict=True))
            named = " ".join(re.findall("^- Finding: .*", text, flags=re.MULTILINE))
            codes = [_to_code(code, page) for code in sorted(set(re.findall(r"\b[A-Z]\d{3}\b", named)))]
            rows.append((f"[{title[1]}]({one.name})", str(findings), ", ".join(codes) or "no code: wrong results or wrong machine code"))
    return table(("project", "faults", "codes of the findings"), rows)


def pipeline_twins(_: Page) -> str:
    """What an H200 took for right and held-back rings, beside the loads in flight that the barriers allow."""
    folder = ROOT / "tests" / "data" / "pipeline_twins"
    times, model = (json.loads((folder / f"{name}.json").read_text()) for name in ("times", "model"))
    rows = []
    for name, one in times["kernels"].items():
        rings = model["kernels"][name]
        flying = " and ".join(map(str, dict.fromkeys(rings["in_flight"])))
        mark = " \\*" if name in model["exceptions"] else ""
        rows.append((f"`{name}`", one["says"], str(rings["stages"][0]), f"{flying}{mark}", f"{one['best_ms']:.3f}"))
    told = "\n".join(filled(f"`{name}`: {why}.", "- ") for name, why in model["exceptions"].items())
    head = ("kernel", "what it does", "stages", "loads in flight, by its barriers", "ms")
    return f"{table(head, rows)}\n\n\\* Exceptions:\n\n{told}"


TABLES: dict[str, Callable[..., str]] = {
    of.__name__: of
    for of in (
        atoms,
        launch_keys,
        keys,
        findings,
        finding,
        evidence,
        errata,
        disputes,
        speeds,
        waited_for,
        suites,
        commands,
        options,
        python,
        counted,
        alternatives,
        unrefuted,
        calibrated,
        witnesses,
        ran,
        cards,
        card_sources,
        unknown,
        projects,
        pipeline_twins,
    )
}
