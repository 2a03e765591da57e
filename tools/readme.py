"""Writes the parts of README.md and golden/README.md that come from the code: `python tools/readme.py [--check]`.

The text between a marker `<!-- name -->` and its end marker is replaced. The README's Python is run; an expression
whose comment begins with a value must have that value.
"""

from __future__ import annotations

import ast
import contextlib
import json
import pathlib
import re
import shlex
import sys
import tempfile
import textwrap
import tomllib

from click.testing import CliRunner

from smemsim import TilePicture, check, tile_svg
from smemsim.cli import main as cli
from smemsim.evidence.launches import ARGUMENTS, ARRAY_KEYS, BESIDE, KEYS
from smemsim.judge.scenario import STEPS, TABLES, Operand
from smemsim.show.tile import atoms_svg
from smemsim.spec.disputes import DISPUTES
from smemsim.spec.errata import ERRATA
from smemsim.spec.evidence import RULES
from smemsim.spec.findings import CODES
from smemsim.tables import keys_of
from tools.speeds import table as speed_table

ROOT = pathlib.Path(__file__).resolve().parents[1]
RUN = "run kernel.ptx --launch golden/sm_90a/launches/kernels/gemm_specialized/launch.json"
DOT = 'dot --a-type bf16 --values -a "256 -256 2^-20*14" -b "256 256 0.75*14" -c 1'
DECODE = "decode 0x4000000800010040 --arch sm_90a --dtype bf16 --major K --rows 64 --k 16"
CALL = """decode --arch sm_90a 'cuTensorMapEncodeTiled(&tm, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, (void*)0x7f0000000000, {4096, 4096}, {4096},
        {64, 128}, {1, 1}, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)'"""


def smemsim(command: str) -> str:
    """What a command prints."""
    with contextlib.chdir(ROOT):
        return CliRunner().invoke(cli, shlex.split(command), catch_exceptions=False).stdout.rstrip()


def console(command: str) -> str:
    """A command and what it prints, as an indented block."""
    return "\n".join(f"    {line}".rstrip() for line in [f"$ smemsim {command}", *smemsim(command).splitlines()])


def pictures(text: str) -> dict[pathlib.Path, str]:
    """Every picture that the README makes with `smemsim ... > NAME.svg`."""
    commands = re.findall(r"^    smemsim ([^$]*?) > (\w+\.svg)$", text, re.MULTILINE)
    return {ROOT / ".readme" / name: smemsim(command) + "\n" for command, name in commands}


def scenario_pictures(text: str) -> dict[pathlib.Path, str]:
    """The operand of the README's scenario, and the layout of a whole tile."""
    [toml] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    wrong = tile_svg(check(tomllib.loads(toml)).tiles()[0], most=16, hover=False)
    word, k_add = 0x4000404000010040, [panel + step for panel in (0, 16384) for step in range(0, 128, 32)]
    tile = TilePicture.of(word, arch="sm_100a", dtype="bf16", major="K", rows=64, k=16, k_add=k_add, mn_add=[0, 8192])
    return {ROOT / ".readme" / "scenario.svg": wrong + "\n", ROOT / ".readme" / "atoms.svg": atoms_svg(tile) + "\n"}


def run_python(text: str) -> None:
    """Run the README's Python; a comment `# value` or `# value: why` is held against the expression before it."""
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        known: dict[str, object] = {}
        lines = block.splitlines()
        for statement in ast.parse(block).body:
            source = ast.unparse(statement)
            with contextlib.chdir(ROOT):
                if not isinstance(statement, ast.Expr):
                    exec(source, known)
                    continue
                value = eval(source, known)
            said = lines[(statement.end_lineno or 1) - 1].partition("  # ")[2].partition(": ")[0]
            try:
                wanted_value = ast.literal_eval(said)
            except (SyntaxError, ValueError):
                continue  # prose
            if value != wanted_value:
                sys.exit(f"README.md: {source} is {value!r}, the comment says {said}")


def of_scenario(text: str, command: str) -> str:
    """What a command says of the README's scenario, in lines of 150 columns."""
    [toml] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "kernel.toml"
        file.write_text(toml)
        said = smemsim(command.replace("kernel.toml", str(file)))
    lines = [wrapped for line in said.splitlines() for wrapped in textwrap.wrap(line, 150, drop_whitespace=False) or [""]]
    return "\n".join(f"    {line}".rstrip() for line in [f"$ smemsim {command}", *lines])


def of_kernel(text: str, command: str) -> str:
    """What a command says of the README's kernel, which its `sed` line makes of a recorded one; times are left out."""
    [line] = re.findall(r"^    (sed '.*) > kernel\.ptx\b", text, re.MULTILINE)
    _, edit, source = shlex.split(line)
    _, old, new, _ = edit.split("/")
    ptx = (ROOT / source).read_text()
    if old not in ptx:
        sys.exit(f"README.md: {source} has no {old!r}")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "kernel.ptx"
        file.write_text(ptx.replace(old, new))
        said = smemsim(command.replace("kernel.ptx", str(file))).replace(str(file), "kernel.ptx")
    said = re.sub(r" in \d+\.\d s,", ",", said)
    lines = [wrapped for line in said.splitlines() for wrapped in textwrap.wrap(line, 150, drop_whitespace=False) or [""]]
    return "\n".join(f"    {line}".rstrip() for line in [f"$ smemsim {command}", *lines])


def launch_keys() -> str:
    """Every key of launch files."""
    arguments = {name: of for kind, of_kind in ARGUMENTS.items() for name, of in {kind: of_kind, **BESIDE.get(kind, {})}.items()}
    places = {"top": KEYS, "args": arguments, "arrays": ARRAY_KEYS}
    rows = [(place if i == 0 else "", name, of.says) for place, keys in places.items() for i, (name, of) in enumerate(keys.items())]
    return table(("table", "key", "says"), rows)


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(cell or " " for cell in row) + " |" for row in rows])


def evidence() -> str:
    rows = []
    for r in RULES.values():
        grades = [str(r.grades.get(arch, "")) for arch in ("sm_90a", "sm_100a", "sm_103a")]
        rows.append((r.statement.replace("|", "/"), *grades, ", ".join([*(f"`{t}`" for t in r.traces), r.source])))
    return table(("rule", "sm_90a", "sm_100a", "sm_103a", "traces and sources"), rows)


def errata() -> str:
    rows = [(e.topic, e.document, e.says, e.but, f"`{e.trace}`" if e.trace else "not measured") for e in ERRATA]
    return table(("topic", "document", "says", "but", "trace"), rows)


def disputes() -> str:
    rows = [(topic, d.takes, d.source, d.other) for topic, d in DISPUTES.items()]
    return table(("Blackwell only", "the model", "after", "but"), rows)


def findings() -> str:
    return table(("code", "name", "severity", "says"), [(c.number, c.slug, str(c.severity), c.says) for c in CODES.values()])


def keys() -> str:
    """Every key of scenario files; in bold those that must be there."""
    rows = []
    for name, of_table in (TABLES | STEPS | {"operand": Operand}).items():
        where = {"scenario": "top", "operand": "[step.a] [step.b] ...", "layout": "layout", "meant": "meant", "expect": "[expect]"}
        place = where.get(name) or (f"[{name}.NAME]" if name in TABLES else f"[[step]] {name}")
        rows += [
            (place if i == 0 else "", f"**{key}**" if of.required else key, of.says)
            for i, (key, of) in enumerate(keys_of(of_table).items())
        ]
    return table(("table", "key", "says"), rows)


def speeds() -> str:
    """What `python tools/bench.py --peers --json` printed when it was last kept; nothing is timed here."""
    return speed_table.markdown(*speed_table.of_json(json.loads((ROOT / "tools" / "speeds" / "measured.json").read_text())))


def suites() -> str:
    rows = []
    for path in sorted((ROOT / "golden" / "sm_90a").rglob("manifest.json")):
        manifest = json.loads(path.read_text())
        rows.append(f"| `{manifest['suite']}` | {manifest['cases']:,} | {manifest['title']} |")
    return "\n".join(rows)


def replaced(text: str, name: str, block: str) -> str:
    """The text with `block` after the marker; what stood between marker and end marker goes."""
    end = f"<!-- /{name} -->"
    pattern = re.compile(rf"<!-- {name} -->\n(.*?{re.escape(end)}\n)?", re.DOTALL)
    return pattern.sub(lambda _: f"<!-- {name} -->\n{block}\n{end}\n", text, count=1)


def wanted(but: str = "") -> dict[pathlib.Path, str]:
    """What the files should be; the block `but` as it is."""
    readme, golden = ROOT / "README.md", ROOT / "golden" / "README.md"
    text = readme.read_text()
    run_python(text)
    for name, made in (
        ("run", lambda: of_kernel(readme.read_text(), RUN)),
        ("launch_keys", launch_keys),
        ("decode_call", lambda: console(CALL)),
        ("decode", lambda: console(DECODE)),
        ("decode_instr", lambda: console("decode 0x08A01400 --kind f16 --cta-group 1")),
        ("map_element", lambda: console("map 0x08200490 --kind f16 --cta-group 2 --element 70,100")),
        ("plan", lambda: console("plan 128x64 --arch sm_90a --dtype bf16 --major K --all")),
        ("check", lambda: of_scenario(readme.read_text(), "check kernel.toml")),
        ("show", lambda: of_scenario(readme.read_text(), "show kernel.toml --lines 10")),
        ("solve", lambda: of_scenario(readme.read_text(), 'solve kernel.toml --operand "step[1].a"')),
        ("dot", lambda: console(DOT)),
        ("replay", lambda: console("replay golden/")),
        ("keys", keys),
        ("findings", findings),
        ("evidence", evidence),
        ("errata", errata),
        ("disputes", disputes),
        ("speeds", speeds),
    ):
        if name != but:
            text = replaced(text, name, f"\n{made()}\n")
    return {readme: text, golden: replaced(golden.read_text(), "suites", suites()), **pictures(text), **scenario_pictures(text)}


def main() -> None:
    only_check = "--check" in sys.argv[1:]
    but = sys.argv[sys.argv.index("--but") + 1] if "--but" in sys.argv else ""  # for what something else holds true
    made = wanted(but)
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    if only_check and stale:
        sys.exit(f"stale: {', '.join(str(p.relative_to(ROOT)) for p in stale)}; run python tools/readme.py")
    for path in stale:
        path.write_text(made[path])


if __name__ == "__main__":
    main()
