"""`smemsim evidence`: the rules about hardware, their evidence, and their alternatives."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

import click

from smemsim.base.arguments import shown, suggestion
from smemsim.base.errors import InputError
from smemsim.cli.options import json_option

if TYPE_CHECKING:
    from smemsim.core.spec.evidence import Rule

__all__ = ["evidence"]


@click.command(short_help="Print the rules about hardware, their evidence, and their alternatives.")
@click.argument("rule", required=False)
@click.option(
    "--open",
    "open_arch",
    metavar="ARCH",
    help="List the alternatives that no program refutes on ARCH, and the experiment that would decide each.",
)
@click.option("--alternatives", is_flag=True, help="List the alternatives of RULE, or of every rule, and the programs that refute them.")
@json_option
def evidence(rule: str | None, open_arch: str | None, alternatives: bool, as_json: bool) -> None:
    """Print the rules about hardware with their grades: measured, witnessed, documented, compiled,
    inferred. RULE names one rule.

    A rule is witnessed if programs known to be right on that hardware give wrong results under each of its
    alternatives. To try an alternative, use --assume RULE=ALTERNATIVE of smemsim run, exec and check.

    \b
    smemsim evidence
    smemsim evidence --alternatives tcgen05.pair
    smemsim evidence --open sm_100a
    """
    from smemsim.core.spec.alternatives import ALIKE, ALTERNATIVES, EXPERIMENTS
    from smemsim.core.spec.architectures import any_architecture
    from smemsim.core.spec.compiled import COMPILED
    from smemsim.core.spec.evidence import RULES
    from smemsim.core.spec.grades import Grade
    from smemsim.core.spec.published import PUBLISHED

    if rule is not None and rule not in RULES:
        raise InputError(f"rule = {shown(rule)}: there is none of this name{suggestion(rule, list(RULES))}; smemsim evidence lists them")
    rules = [r for r in RULES.values() if rule in (None, r.name)]
    if open_arch is None and not alternatives:
        if as_json:
            rows = [
                {"rule": r.name, "title": r.title, "statement": r.statement, "example": r.example, "reports": r.reports}
                | {"grades": dict(r.grades), "source": r.source}
                for r in rules
            ]
            click.echo(json.dumps(rows, indent=1))
        for r in () if as_json else rules:
            click.echo(_rule(r))
        return
    arch = None if open_arch is None else any_architecture(open_arch).name
    found = []
    for a in ALTERNATIVES.values():
        grades = RULES[a.rule].grades
        if arch is not None and a.only not in ("", arch):
            continue
        if a.rule not in [r.name for r in rules] or (arch is not None and grades.get(arch, Grade.MEASURED) is Grade.MEASURED):
            continue
        by, others = _refuters(str(a), arch)
        if arch is None or not by:
            found.append({
                "alternative": str(a), "instead": a.sentence, "because": a.source, "refuted_by": by, "refuted_by_own_programs": others,
                "beside": _beside(by), "met_by_runs": _met(str(a)), "alike": ALIKE.get(str(a), ""), "experiment": EXPERIMENTS[a.point],
                "published": [p._asdict() | {"against": str(a)} for p in PUBLISHED if str(a) in p.against],
                "compiled": [c._asdict() | {"against": str(a)} for c in COMPILED if str(a) in c.against],
            })  # fmt: skip
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for one in found:
        click.echo(_block(one, with_experiment=arch is not None))
    if arch is not None:
        click.echo(_open_on(arch, found))


def _open_on(arch: str, found: list[dict[str, Any]]) -> str:
    """How many alternatives are open on a card, and what would settle them."""
    from smemsim.core.spec.alternatives import ALTERNATIVES
    from smemsim.core.spec.evidence import RULES

    if not any(arch in RULES[a.rule].grades for a in ALTERNATIVES.values()):
        return (
            f"smemsim has no list of alternatives for {arch}. Nothing was measured on such a card; docs/cards.md has the grades.\n"
            f"smemsim capture --dry-run --arch {arch} shows what a card would be asked"
        )
    alike, met, told, compiled = (sum(bool(one[key]) for one in found) for key in ("alike", "met_by_runs", "published", "compiled"))
    return (
        f"{len(found)} of {len(ALTERNATIVES)} alternatives are open on {arch}: no program that is known to be right there refutes them.\n"
        f"  {alike} of them give the rule's result in every program\n"
        f"  {met} would change the result of a recorded run\n"
        f"  {told} are contradicted by measurements that others published\n"
        f"  {compiled} are contradicted by what compilers write\n"
        "A card would settle most of them: see docs/howto/your-card.md.\n"
        f"smemsim capture --dry-run --arch {arch} shows what would be measured"
    )


def _refuters(alternative: str, arch: str | None) -> tuple[list[str], list[str]]:
    """Programs of `arch` that refute an alternative: those known to be right on a card, and those of this package."""
    from smemsim.core.spec.evidence import kill_matrix

    matrix = kill_matrix()
    programs = {name: about for name, about in matrix["programs"].items() if arch in (None, about["arch"])}
    refuted = [name for name in matrix["alternatives"].get(alternative, {"refuted_by": {}})["refuted_by"] if name in programs]
    return [n for n in refuted if programs[n]["witness"]], [n for n in refuted if not programs[n]["witness"]]


def _beside(programs: list[str]) -> list[str]:
    """Other rules that a refutation depends on, if all its programs compare with the result of another unit of the
    card.
    """
    from smemsim.core.spec.evidence import kill_matrix

    rules = [kill_matrix()["programs"][name].get("rests_on", "") for name in programs]
    return sorted(set(rules)) if all(rules) else []


def _met(alternative: str) -> int:
    """The number of runs of programs known to be right in which the alternative would change a result."""
    from smemsim.core.spec.evidence import kill_matrix

    return int(kill_matrix()["alternatives"].get(alternative, {}).get("met_by", 0))


def _block(one: dict[str, Any], *, with_experiment: bool) -> str:
    """One alternative: its name, and a labelled line for each fact."""
    by, own, runs = one["refuted_by"], one["refuted_by_own_programs"], one["met_by_runs"]
    rows = [("instead", one["instead"]), ("reason", one["because"])]
    if by:
        others = f" and {len(by) - 3} more" if by[3:] else ""
        rows.append(("refuted by", f"{', '.join(by[:3])}{others}"))
        if one["beside"]:
            compares = "compares" if len(by) == 1 else "compare"
            rows.append(("", f"which {compares} with another unit of the card: as sure as {', '.join(one['beside'])} there"))
    else:
        rows.append(("refuted by", "no program that is known to be right"))
        if own:
            rows.append(("", f"but by {', '.join(own[:2])}, written for smemsim"))
        changed = f"{runs} recorded run{'s' * (runs > 1)} would have another result, and none is known to be wrong then"
        rows.append(("runs", one["alike"] or (changed if runs else "no recorded run would have another result, so none can decide")))
    rows += [
        ("published", f"{o['source']}, {o['card']}, contradicts it: {o['says']} ({o['reach']}). Not repeated here, so it refutes nothing")
        for o in one["published"]
    ]
    rows += [("compilers", f"contradict it, which does not prove what hardware does: {o['source']}: {o['says']}") for o in one["compiled"]]
    if with_experiment:
        rows.append(("would settle it", one["experiment"]))
    return _labelled(one["alternative"], rows)


def _rule(r: Rule) -> str:
    """One rule: its name and title, and a labelled line for each fact."""
    grades = ", ".join(f"{grade} on {arch}" for arch, grade in r.grades.items())
    rows = [
        ("rule", r.statement), ("example", r.example), ("smemsim", r.reports), ("grade", grades),
        *([("traces", ", ".join(r.traces))] if r.traces else []), ("source", r.source),
    ]  # fmt: skip
    return _labelled(f"{r.name}: {r.title}", rows)


def _labelled(title: str, rows: list[tuple[str, str]]) -> str:
    """A title, and a wrapped paragraph after each label."""
    width = max(len(label) for label, _ in rows)
    return "\n".join([
        title,
        *(
            textwrap.fill(
                text, 100, initial_indent=f"  {label:<{width}}  ", subsequent_indent=" " * (width + 4), break_long_words=False, break_on_hyphens=False
            )
            for label, text in rows
        ),
    ])  # fmt: skip
