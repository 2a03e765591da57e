"""The corpus of others' programs (programs.toml): reading it, and finding checkouts."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from smemsim.core.spec.architectures import MACHINES

__all__ = ["CORPUS", "Program", "Project", "checkout_of", "corpus"]

CORPUS = pathlib.Path(__file__).with_name("programs.toml")
CHECKS = ("exit", "assert", "none")


@dataclasses.dataclass(frozen=True)
class Project:
    """Where programs come from. `tested` says how we know that the project runs them on the hardware; with "" its
    programs are no witnesses.

    `mark` is a path that every checkout has, `unless` a path that only a fork has.
    """

    name: str
    commit: str
    licence: str
    mark: str
    tested: str
    unless: str = ""
    versions: str = ""  # of the packages it was run with


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """One program: a `command` in a `folder` of the checkout, or a suite: `files` of tests, of whose `functions` (a
    regular expression) `each` sets of parameters.
    """

    name: str
    project: Project
    folder: str
    arch: str
    check: str
    limit: float  # seconds of a program, or of a test
    command: str = ""
    files: tuple[str, ...] = ()
    functions: str = ""
    each: int = 0
    stand_ins: tuple[str, ...] = ()
    note: str = ""
    rests_on: str = ""  # a rule beside: what the program compares with is computed by it, on the card as here
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.check not in CHECKS or self.arch not in MACHINES or bool(self.command) == bool(self.files):
            raise ValueError(
                f"{CORPUS.name}: {self.name}: check is one of {', '.join(CHECKS)}; it has a command or files, and a known arch"
            )

    @property
    def needs_executable(self) -> bool:
        """Is the command an executable that the user has built from the checkout?"""
        return "{built}" in self.command


@functools.cache
def corpus() -> tuple[Program, ...]:
    """All programs, in the order of the file."""
    data: dict[str, Any] = tomllib.loads(CORPUS.read_text(encoding="utf-8"))
    projects = {name: Project(name, **about) for name, about in data["projects"].items()}
    found = []
    for row in data["programs"]:
        lists = {key: tuple(row[key]) for key in ("files", "stand_ins") if key in row}
        found.append(Program(**{**row, **lists, "project": projects[row["project"]]}))
    return tuple(found)


def checkout_of(project: Project, folders: Iterable[pathlib.Path]) -> pathlib.Path | None:
    """The first of these folders, or of those in them, that is a checkout of the project."""
    for folder in folders:
        for one in (folder, *sorted(p for p in folder.iterdir() if p.is_dir())):
            if (one / project.mark).exists() and not (project.unless and (one / project.unless).exists()):
                return one
    return None
