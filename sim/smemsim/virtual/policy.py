"""The options of a virtual GPU: which launches are checked, what is printed, kept and written, and when a program is
ended.

Every field has an environment variable, so that `smemsim exec` can be configured in a CI file.

>>> Policy.of({"SMEMSIM_ON_FINDING": "collect", "SMEMSIM_CTAS": "0-3"}).ctas
(0, 1, 2, 3)
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import pathlib
import re
import runpy
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from smemsim.base.arguments import cta_numbers, shown, suggestion
from smemsim.base.budget import amount
from smemsim.base.errors import InputError, SmemsimError
from smemsim.base.files import write_whole
from smemsim.base.terminal import PREFIXED
from smemsim.core.finding import headline_of, messages_of
from smemsim.core.spec.findings import CODES, Severity
from smemsim.core.spec.traps import TIMEOUT
from smemsim.diagnosis.covered import COMPARE, IN_REGISTERS, not_checked, operands_checked, rests_on

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "FRESH_MEMORY",
    "ON_FINDING",
    "FindingsError",
    "HookedLaunch",
    "Policy",
    "card_of_environment",
    "checked_of",
    "hook",
    "hook_failed",
    "hooks_of",
    "partial_of",
]


ON_FINDING = {
    "warn": "findings are printed on stderr as they come, and the program goes on",
    "raise": "the launch fails, as if the kernel had trapped",
    "collect": "findings are printed at the end",
}
FRESH_MEMORY = {
    "garbage": "allocated memory holds garbage, and its use before a write is R507",
    "zeros": "what is allocated holds zeros, which count as written",
}
PREFIX = "SMEMSIM_"
MOST_MISSED = 3  # reasons in the last line of exec
MOST_RAISED = 3  # findings in the text of an exception
REFUSED = "not_simulated"  # the key of what says why code of the program is not simulated
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off", "")


class FindingsError(SmemsimError):
    """A launch has findings, and the policy is to raise. The launch is `run`, None if it was in another process.

    The message has the first findings. All of them are in `run.text()`, and were printed to stderr before the
    exception.
    """

    def __init__(self, run: Any) -> None:
        said = [str(f) for f in (run.findings or run.remarks)]
        more = [f"... and {len(said) - MOST_RAISED} more"] if len(said) > MOST_RAISED else []
        super().__init__("\n".join([*said[:MOST_RAISED], *more]))
        self.run = run

    def __reduce__(self) -> Any:
        """For another process it is its text: a run is bound to the memory of the one that it ran in."""
        return _findings_elsewhere, (str(self),)


def _findings_elsewhere(text: str) -> FindingsError:
    made = FindingsError.__new__(FindingsError, text)
    made.run = None
    return made


# names of variables beside those of the fields
ALSO = {"watch_global": "GLOBAL_RACES", "unwatched": "NO_SANITIZE_KERNELS"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Policy:
    """The options of a virtual GPU: how launches run, and what happens with findings.

    - Findings: `on_finding`, a key of ON_FINDING. With `strict`, remarks about documented rules that the kernel breaks
      count, too. With `remarks`, the remarks of launches without findings are printed, too, each once.
    - Sanitizer: with `sanitize=False` kernels are only executed. With `watch_global=False` races in global memory are
      not looked for. Kernels whose names match the regular expression `unwatched` run without the sanitizer.
    - Part of each grid: `ctas`: numbers, "sample" for a few that represent the grid, None for all.
    - Processes: `workers`, for independent CTAs.
    - Limits: `limit` (blocks of instructions) and `limit_seconds` bound one launch. The program is bounded by
      `limit_launches` and `total_seconds`.
    - Files: `record`, a folder for launch files, `report`, a folder for HTML pages, and `json`, a file. Functions
      marked by `hook` are read from the Python file `hooks`.
    - Launches: `schedule`, `cancel`, `assume` and `overrun`, as for `Gpu.launch`.
    - Memory: `fresh_memory`, a key of FRESH_MEMORY.
    - Number of launches: `require_launches`. Fewer give exit code 2. With `quiet` no line for each launch is printed.
    - Records: with `counters` the cost of each line is counted. With `pipeline` the rings of stages are recorded.
    - Sources: `sources`, folders of source files, besides the current one and those below it.
    - Host code: with `host_code=False`, x86 code for hidden parameters in a cubin (cuTile) is not run.
    """

    on_finding: str = "warn"
    strict: bool = False
    remarks: bool = False
    ctas: tuple[int | str, ...] | None = None
    sanitize: bool = True
    watch_global: bool = True
    unwatched: str = ""
    limit: int | None = None
    limit_seconds: float | None = None
    limit_launches: int | None = None
    total_seconds: float | None = None
    record: pathlib.Path | None = None
    report: pathlib.Path | None = None
    json: pathlib.Path | None = None
    hooks: pathlib.Path | None = None
    workers: int | None = None
    cancel: str = "resident"
    schedule: str | None = None
    assume: str | None = None
    quiet: bool = False
    require_launches: int | None = None
    fresh_memory: str = "garbage"
    overrun: int | None = None
    host_code: bool = True
    counters: bool = False
    pipeline: bool = False
    sources: tuple[pathlib.Path, ...] = ()

    def __post_init__(self) -> None:
        for name, known in (("on_finding", ON_FINDING), ("fresh_memory", FRESH_MEMORY)):
            given = getattr(self, name)
            if given not in known:
                raise InputError(f"{name} = {shown(given)}: needs one of {', '.join(known)}{suggestion(given, known)}")
        if self.schedule is not None:
            # which needs numpy: `smemsim exec` starts the program first
            from smemsim.run.engine.schedule import checked_schedule

            checked_schedule(self.schedule)
        if self.cancel != "resident":
            from smemsim.run.engine.launch import LaunchConfig

            LaunchConfig(cancel=self.cancel)
        for folder in self.sources:
            if not folder.is_dir():
                raise InputError(f"sources = {folder}: is not a folder")
        if self.hooks is not None:
            _check_hooks(self.hooks)
        if self.assume:
            from smemsim.core.spec.alternatives import alternative_of

            alternative_of(self.assume)
        try:
            re.compile(self.unwatched)
        except re.error as e:
            raise InputError(f"--no-sanitize-kernels (unwatched) {shown(self.unwatched)}: is no regular expression ({e})") from None

    @classmethod
    def of(cls, environment: Mapping[str, str] | None = None, **given: Any) -> Policy:
        """The policy of the environment variables. Values that are `given` and not None override them. InputError names
        the variable.
        """
        found: dict[str, Any] = {}
        kinds = get_type_hints(cls)
        for field in dataclasses.fields(cls):
            name = PREFIX + field.name.upper()
            known = os.environ if environment is None else environment
            text = known.get(PREFIX + ALSO[field.name]) or known.get(name) if field.name in ALSO else known.get(name)
            if text:
                found[field.name] = _read(name, text, kinds[field.name])
        return cls(**found | {name: value for name, value in given.items() if value is not None})

    def environment(self) -> dict[str, str]:
        """The environment variables of this policy, for a child process."""
        said = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                between = os.pathsep if field.name == "sources" else ","
                text = between.join(map(str, value)) if isinstance(value, tuple) else str(int(value) if isinstance(value, bool) else value)
                said[PREFIX + field.name.upper()] = text
        return said

    def is_watched(self, name: str) -> bool:
        """Does the sanitizer check kernels of this name?"""
        return self.sanitize and not (self.unwatched and re.search(self.unwatched, name))

    def is_fine(self, run: Any) -> bool:
        """Has a run no findings that count under this policy?"""
        return bool(run.is_strictly_ok if self.strict else run.ok)


def card_of_environment(environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The card by the environment: SMEMSIM_MULTIPROCESSORS, SMEMSIM_MEMORY_BYTES (16G ...), SMEMSIM_CARD, as
    `VirtualDevice` takes them.

    >>> card_of_environment({"SMEMSIM_MEMORY_BYTES": "1G"})
    {'multiprocessors': None, 'memory_bytes': 1073741824}
    """
    known = os.environ if environment is None else environment
    count, size = (known.get(PREFIX + name) for name in ("MULTIPROCESSORS", "MEMORY_BYTES"))
    card: dict[str, Any] = {"card": known[PREFIX + "CARD"]} if known.get(PREFIX + "CARD") else {}
    return {
        "multiprocessors": _read(PREFIX + "MULTIPROCESSORS", count, int) if count else None,
        "memory_bytes": amount(size, PREFIX + "MEMORY_BYTES") if size else None,
        **card,
    }


def _read(name: str, text: str, kind: Any) -> Any:
    kinds = get_args(kind) or (kind,)
    try:
        if bool in kinds:
            if text.lower() not in (*_TRUE, *_FALSE):
                raise ValueError
            return text.lower() in _TRUE
        if name == PREFIX + "CTAS":
            return cta_numbers(name, text)
        if name == PREFIX + "SOURCES":
            return tuple(map(pathlib.Path, filter(None, text.split(os.pathsep))))
        if int in kinds or float in kinds:
            value = int(text) if int in kinds else float(text)
            if not value > 0:
                raise ValueError
            return value
    except InputError:
        raise
    except ValueError:
        wanted = "1 or 0" if bool in kinds else "a whole number above 0" if int in kinds else "a number above 0"
        raise InputError(f"{name} = {shown(text)}: needs {wanted}") from None
    return pathlib.Path(text) if pathlib.Path in kinds else text


# ---- Hooks: kernels that are not under test, as Python


@dataclasses.dataclass(frozen=True, eq=False)
class HookedLaunch:
    """A launch that a hook runs in the kernel's place: its name, its shape, the bytes of its arguments, and the
    device's memory.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[bytes, ...]
    memory: Callable[[int, int], np.ndarray]

    def value(self, n: int, dtype: Any) -> Any:
        """The n-th argument as a number of a numpy type."""
        import numpy as np

        return np.frombuffer(self.arguments[n], dtype, 1)[0]

    def array(self, n: int, dtype: Any, shape: Any) -> np.ndarray:
        """The array that the n-th argument points to: the memory itself. InputError where no allocation is as large."""
        import numpy as np

        extents = tuple(shape) if isinstance(shape, (tuple, list)) else (int(shape),)
        kind = np.dtype(dtype)
        found: np.ndarray = self.memory(int(self.value(n, np.uint64)), int(np.prod(extents)) * kind.itemsize).view(kind).reshape(extents)
        return found


Hook = Callable[[HookedLaunch], Any]
_hooks: list[tuple[re.Pattern[str], Hook]] = []


def hook(pattern: str) -> Callable[[Hook], Hook]:
    """Mark a function that runs in place of kernels whose names (mangled or readable) the pattern matches.

    It is given a `HookedLaunch`, and changes memory as the kernel would have; returning False it declines, and the
    kernel runs.

    >>> @hook("fill_with_")
    ... def fill(launch):
    ...     launch.array(0, "f4", launch.value(2, "i4"))[:] = launch.value(1, "f4")
    """

    def mark(function: Hook) -> Hook:
        _hooks.append((re.compile(pattern), function))
        return function

    return mark


def hooks_of(path: pathlib.Path | None) -> list[tuple[re.Pattern[str], Hook]]:
    """The hooks of this process, and those that a file marks, which are its own."""
    before = len(_hooks)
    if path is not None:
        _check_hooks(path)
        try:
            runpy.run_path(str(path))
        except Exception as e:
            raise hook_failed(f"hooks = {path}:", e) from None
    found = list(_hooks)
    del _hooks[before:]
    return found


def _check_hooks(path: pathlib.Path) -> None:
    if not path.is_file():
        raise InputError(f"hooks = {path}: {'is a folder; name a Python file in it' if path.is_dir() else 'there is no such file'}")


def hook_failed(what: str, e: Exception) -> InputError:
    """The message for an exception in the user's hooks, with the line that raised it."""
    if isinstance(e, SyntaxError) and e.lineno is None:
        return InputError(f"{what} is no Python file ({e})")
    frames = [
        f for f in traceback.extract_tb(e.__traceback__) if f"{os.sep}smemsim{os.sep}" not in f.filename and "runpy" not in f.filename
    ]
    at = (
        f"{e.filename}:{e.lineno}" if isinstance(e, SyntaxError) else f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "its call"
    )
    return InputError(f"{what} fails at {at}: {type(e).__name__}: {e}")


# ---- What was launched, for the end of the program


@dataclasses.dataclass(slots=True)
class Launched:
    """One launch for the summary, the page and the JSON file. All launches are kept, up to 100,000 and more, so equal
    parts are shared.
    """

    number: int
    name: str
    kernel: str  # mangled
    grid: tuple[int, ...]
    block: tuple[int, ...]
    cluster: tuple[int, ...]
    shared_bytes: int
    seconds: float = 0.0
    said: str = ""  # the line for stderr, without its number
    is_fine: bool = True
    error: int = 0  # the CUDA error that it ended with
    refused: str = ""  # why it did not run
    run: dict[str, Any] | None = None  # `Run.as_dict`, without its time
    page: str = ""
    ptx: str = ""  # a digest of the kernel's code
    families: Sequence[str] = ()  # instructions of Hopper and Blackwell in it
    named: Sequence[str] = ()  # a line for each allocation that findings name
    costs: str = ""  # counters and rings of stages, in lines, if the policy asks for them
    has_no_files: bool = False  # its record or page could not be written
    is_beside: bool = False  # on a card, earlier work of another stream may still run

    @property
    def told(self) -> str:
        """The line for stderr."""
        return f"launch {self.number}, {self.said}" if self.said else ""

    def fields(self) -> dict[str, Any]:
        """The fields that make such a launch again."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def as_dict(self) -> dict[str, Any]:
        """The launch as a dictionary for JSON."""
        found = self.fields()
        del found["said"], found["costs"], found["has_no_files"]
        run = None if self.run is None else {**self.run, "seconds": round(self.seconds, 3)}
        return {**found, "told": self.told, "run": run}

    def is_like(self, other: Launched) -> None:
        """Share what is the same with another launch."""
        if self.run == other.run:
            self.run = other.run
        if self.said == other.said:
            self.said = other.said

    @property
    def is_partial(self) -> bool:
        """Was a part of the grid left out (--ctas)?"""
        return bool(self.run and self.run.get("partial"))

    @property
    def held_up(self) -> str:
        """The condition that a CTA waits for, if it may come from one that was left out (--ctas). "" if none waits."""
        return str((self.run or {}).get("held_up", ""))

    @property
    def is_clean(self) -> bool:
        """Did it run to its end, with nothing wrong? One that a limit ended before is no clean bill, nor one that waits
        for a CTA that was left out.
        """
        return self.is_fine and not self.refused and self.error != TIMEOUT and not self.held_up

    def findings(self) -> list[str]:
        """A line for each finding, and for each allocation that they name."""
        found = (self.run or {}).get("findings", [])
        return [*messages_of(found, len(PREFIXED)), *self.named]

    def headline(self) -> str:
        """The first finding in a few words: its code, the line of the source that it is at, else of the PTX, and what
        it says.
        """
        found = (self.run or {}).get("findings", []) or (self.run or {}).get("remarks", [])
        if not found:
            return self.refused or self.told
        first = found[0]
        return headline_of(first, self.name)


def summary_of(launches: list[Launched], *, are_left: bool = False) -> str:
    """A sentence for the end: the number of launches and kernels, and what was found. If `are_left` is set, remarks of
    launches without findings were not printed. Then the sentence names the option that prints them.
    """
    if not launches:
        return "no kernel was launched"
    kernels = len({x.kernel for x in launches})
    bad = [x for x in launches if not x.is_fine]
    refused = [x for x in launches if x.refused]
    cut = sum(x.error == TIMEOUT and not x.refused for x in launches)
    counts = f"{len(launches)} launch{'es' * (len(launches) != 1)} of {kernels} kernel{'s' * (kernels != 1)} in {sum(x.seconds for x in launches):.1f} s"
    findings = f"findings in {len(bad)} ({', '.join(dict.fromkeys(x.name for x in bad))})" if bad else "no findings"
    findings += _remarks_of(launches, are_left=are_left) + _bounds_of(launches)
    return f"{counts}, {findings}" + (f", {len(refused)} not run" if refused else "") + (f", {cut} stopped before its end" if cut else "")


def partial_of(launches: list[Launched], code: int) -> list[str]:
    """Sentences for the end of a program of which launches ran in part (--ctas); none if all ran whole. `code` is the
    program's exit code.
    """
    partial = [x for x in launches if x.is_partial]
    if not partial:
        return []
    count = f"{len(partial)} of {len(launches)} launch{'es' * (len(launches) != 1)} ran in part (--ctas)"
    own = (
        "its exit code says nothing of the kernels" if code == 0 else f"its exit code {code} may come from that, or from a fault of its own"
    )
    held = [x for x in partial if x.held_up]
    told = [f"{count}: outputs are partial. The program's own comparisons mean nothing: {own}"]
    if held:
        told.append(
            f"{len(held)} of these could not go on ({', '.join(dict.fromkeys(x.name for x in held))}): a CTA waits for one that was left out"
        )
    told.append("races with CTAs that were left out are not checked")
    return told


def checked_of(launches: list[Launched], arch: str) -> list[str]:
    """Lines about what was checked in the launches and what was not, with the command that checks operands without a
    tensor map. None if nothing ran.
    """
    checked = [x.run["checked"] for x in launches if x.run and "checked" in x.run]
    if not checked:
        return []
    seen = sum(bool(x.run and x.run.get("sanitized")) for x in launches)
    of = (
        "the launch"
        if seen == len(launches) == 1
        else f"all {seen} launches"
        if seen == len(launches)
        else f"{seen} of {len(launches)} launches"
    )
    told = [f"checked: races, waits and uninitialised values in {of}"] if seen else []
    counts = {side.upper(): [sum(j[side][n] for j in checked) for n in (0, 1)] for side in "ab"}
    layouts = operands_checked(counts["A"], counts["B"])
    told += [f"checked: operand layouts: {layouts}"] if layouts and any(done for done, _ in counts.values()) else []
    left = [side for side, (done, of) in counts.items() if done < of]
    missed: collections.Counter[str] = collections.Counter()
    for j in checked:
        missed.update(j["missed"])
    lines = [line for line in not_checked(missed) if line != COMPARE]
    told += [
        *lines[:MOST_MISSED],
        *([f"not checked: {len(lines) - MOST_MISSED} more (--json lists them)"] if len(lines) > MOST_MISSED else []),
    ]
    if beside := sum(x.is_beside for x in launches):
        told.append(
            f"not checked: races between streams ({beside} launch{'es' * (beside != 1)} may run beside earlier work of another stream: "
            "no event and no synchronization orders them)"
        )
    if left:
        told.append(f"to check {' and '.join(left)}, save D, A and B: smemsim solve --arch {arch} --d D.npy --a A.npy --b B.npy")
    if IN_REGISTERS in missed:
        run = "smemsim run DIR/NUMBER-KERNEL --expect ARRAY=right.npy"
        told.append(f"to check mma and wmma, compare a result with the right one: smemsim exec --record DIR ..., then {run}")
    return [*(told or ["checked: nothing"]), *filter(None, [rests_on(arch)])]


def _bounds_of(launches: list[Launched]) -> str:
    """In how many launches a limit of the race detector was reached; "" for none."""
    reached = [x for x in launches if x.run and x.run.get("bounds")]
    if not reached:
        return ""
    first = reached[0]
    why = first.run["bounds"][0] if first.run is not None else ""
    return f", a limit of the race detector reached in {len(reached)} ({first.name}: {why})"


def _remarks_of(launches: list[Launched], *, are_left: bool) -> str:
    """How many launches have remarks, their codes, and those of them that `--strict` would fail for; "" for none."""
    told = [one for x in launches for one in _told_of(x)]
    if not told:
        return ""
    fails = dict.fromkeys(code for is_passed, code in told if is_passed and CODES[code].severity in (Severity.TRAP, Severity.WRONG))
    hint = f"; --strict fails for {', '.join(fails)}" if fails else ""
    silent = any(not (is_passed and code in fails) for x in launches if x.is_fine and x.run for is_passed, code in _told_of(x))
    hint += "; --remarks prints them" if are_left and silent else ""
    count = sum(bool(x.run and x.run["remarks"]) for x in launches)
    return f", remarks in {count} ({', '.join(dict.fromkeys(code for _, code in told))}{hint})"


def _told_of(x: Launched) -> list[tuple[bool, str]]:
    """Whether `--strict` looks at each remark of a launch, and the remark's code."""
    return [(x.is_fine and not x.run["strictly_ok"] and bool(f["because"]), f["code"]) for f in x.run["remarks"]] if x.run else []


def write_json(path: pathlib.Path, launches: list[Launched], refused: list[str], exit_code: int) -> None:
    """Write the launches and findings, the reasons why code was not simulated, and the exit code of `smemsim exec`, as
    JSON.
    """
    write_whole(
        path,
        json.dumps(
            {"schema": "smemsim.exec/1", "exit_code": exit_code, REFUSED: refused, "launches": [x.as_dict() for x in launches]},
            indent=1,
        ),
    )
