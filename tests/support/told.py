"""What each test is told through public doors, in facts: what a launch finds and leaves, what a check finds, and what
every other public call answers, whatever the words are.

A test asks for a few of these facts. The others are written down in the folder `told`, for each test: they must be the
same in every later run. `pytest --write-told tests` writes them again. Findings stand there in full, so that a change of
the model shows as changed lines, to be read before they are committed; values of other calls are one sum.
"""

import dataclasses
import enum
import functools
import inspect
import itertools
import json
import math
import pathlib
import re
import threading
import zlib
from collections.abc import Mapping

import numpy as np
from click.testing import CliRunner
from hypothesis import currently_in_test_context

from smemsim import SmemsimError
from strategies import is_night

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "told"
# Numbers and names of PTX: what a text says, whatever the words are.
WORD = re.compile(r"0x[0-9a-f]+|(?<![A-Za-z])\d+(?:\.\d+)?|[a-z]\w*(?:::\w+)?(?:\.\w+(?:::\w+)*)+|\.[a-z]\w+")
# What is no fact: the place in a document, a time, the version, and a path.
CITED = re.compile(r"PTX ISA [\d.]+( §[\d.]+(, [\d.]+)*)?|\b[\d.]+ (s|ms|us|min)\b|smemsim \d\S*|[^\s'\"=]*/[^\s'\"]*")
MOST_BYTES = 1 << 20  # of an array that is summed
MOST_LINE = 300  # characters of a finding's line
MOST_CALLS, MOST_PARTS = 60, 600  # of a test that are summed; of an answer
DOORS = {
    "SmemDescriptor": "decode encode advance problems", "InstrDescriptor": "decode encode problems",
    "TensorMap": "encode tiled im2col im2col_wide from_bytes parse broken_on violations problems",
    "AccumulatorLayout": "location element", "ATmemLayout": "location element", "MetadataLayout": "location element",
    "ScaleLayout": "location element smem_offset", "TmemAccess": "operand location register", "TmemAddress": "decode encode advance",
    "ClusterAddress": "encode decode", "BankAccess": "cost_at is_free", "MmaResult": "dot terms", "Operand": "coordinate coordinates",
    "CuteLayout": "parse coalesce logical_divide zipped_divide recast linear_bases address",
    "SharedMemory": "tma_load load store tma_store tma_reduce bulk_load bulk_store bulk_reduce read_operand",
    "TensorMemory": "alloc dealloc exit_problems read owner owners doubts ld st",
}  # fmt: skip


class Told:
    """What the running test has been told so far, or nothing while no test runs."""

    def __init__(self):
        self.begin()
        self.is_on, self.depth = False, 0

    def begin(self):
        self.lines, self.calls, self.sum, self.is_on, self.depth = [], 0, 0, True, 0

    def end(self):
        """The lines of the test."""
        self.is_on = False
        return [*self.lines, *([f"{self.calls} calls {self.sum:08x}"] if self.calls else [])]

    def counts(self):
        """Is a call that is over one of the test itself? Not with an example of Hypothesis, which is another one in each
        of its versions.
        """
        return self.is_on and self.depth == 1 and not currently_in_test_context()


NOW = Told()


def facts_of(text):
    return " ".join(WORD.findall(CITED.sub("", text)))


def fact(finding):
    """A finding in one line."""
    f, said = finding, [str(finding.code), finding.severity.name.lower(), CITED.sub("", str(finding.where)).strip()]
    said += [f"{name}={value}" for name in ("wrong", "of", "ctas") if (value := getattr(f, name)) not in (0, ())]
    said += [f"{name}={dict(value)}" for name in ("first", "numbers") if (value := getattr(f, name))]
    line = " ".join([*said, facts_of(f"{f.message} {f.repair}")])
    return line if len(line) <= MOST_LINE else f"{line[: MOST_LINE - 9]} {zlib.crc32(line.encode()):08x}"


def parts_of(value, depth=0):
    """The facts of an answer, one by one."""
    if value is None or isinstance(value, (bool, int, enum.Enum)):
        yield str(value)
    elif isinstance(value, float):
        yield "nan" if math.isnan(value) else value.hex()
    elif isinstance(value, str):
        yield facts_of(value)
    elif isinstance(value, (bytes, bytearray)):
        yield f"{zlib.crc32(value):08x}"
    elif isinstance(value, (np.ndarray, np.generic)):
        yield f"{value.shape} {_sum_of(value):08x}"
    elif depth > 5:
        yield type(value).__name__
    else:
        yield from _inner(value, depth + 1)


def _inner(value, depth):
    name = type(value).__name__
    if name == "Finding":
        yield fact(value)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from (*parts_of(key, depth), *parts_of(one, depth))
    elif isinstance(value, (list, tuple)):
        yield str(len(value))
        for one in value:
            yield from parts_of(one, depth)
    elif isinstance(value, (set, frozenset)):
        yield from sorted(" ".join(parts_of(one, depth)) for one in value)
    else:
        yield name
        if type(value).__module__.partition(".")[0] == "smemsim" and dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                if not field.name.startswith("_") and field.compare:
                    yield from parts_of(_held(value, field.name), depth)


def _held(value, name):
    """A field; of one that the model cannot tell, the reason."""
    try:
        return getattr(value, name)
    except SmemsimError as e:
        return type(e).__name__


def _sum_of(array):
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8)) if 0 < array.nbytes <= MOST_BYTES else 0


def _some(parts):
    for number, part in enumerate(parts):
        if number >= MOST_PARTS:
            return
        yield part


def answered(call, answer):
    if NOW.calls < MOST_CALLS:
        NOW.calls += 1
        NOW.sum = zlib.crc32("\n".join([call, *_some(parts_of(answer))]).encode(), NOW.sum)


def ran(launch, memory, *, is_judged):
    """What a launch has left, and found: of one that is judged the findings are those that the test reads."""
    result = launch.result
    sums = " ".join(f"{zlib.crc32(r.data):08x}" for r in memory._regions if 0 < len(r.data) <= MOST_BYTES)
    rest = [result.status, len(result.events), sorted(result.left_out), sorted(result.elsewhere), len(result.bounds), len(result.evidence)]
    seen = itertools.chain(itertools.islice(result.events.transfers(), 20), itertools.islice(result.events.different_products(), 20))
    moved = [list(_some(parts_of(event))) for event in seen]
    found = [f"  {fact(f)}" for f in result.findings.values()]
    NOW.lines.append(f"launch {result.status}: {zlib.crc32(f'{rest} {sums} {moved} {found}'.encode()):08x}")
    NOW.lines += [] if is_judged else found


def judged(findings, args):
    """What a test reads of the findings of a run, once."""
    (run,) = args
    if not vars(run).setdefault("is_told", False):
        run.is_told = True
        NOW.lines.extend(["findings", *(f"  {fact(f)}" for f in (*findings, *run.remarks))])


def noted(call, note):
    """The call, which notes its answer by `note(answer, arguments)`, or what it says if it refuses."""

    @functools.wraps(call)
    def told(*args, **given):
        now = NOW
        if not now.is_on or threading.current_thread() is not threading.main_thread():
            return call(*args, **given)
        now.depth += 1
        try:
            answer = call(*args, **given)
        except Exception as e:
            if now.counts():
                answered(call.__qualname__, (type(e).__name__, str(e)))
            raise
        else:
            if now.counts():
                note(answer, args)
            return answer
        finally:
            now.depth -= 1

    return told


def bodies(function):
    """The first instructions of a function, as they were read."""
    f = function
    return repr(
        (f.name, f.parameters, f.results, f.registers, f.variables, f.labels, f.targets, f.directives, f.line, (f.body or ())[:300])
    ).encode()


def watch():
    """From now on public doors note what they tell."""
    import smemsim
    from smemsim import core

    for name in smemsim.__all__:
        door = getattr(smemsim, name)
        if inspect.isfunction(door) and name not in ("sweep", "launch_triton", "launch_file", "check", "show_html"):
            setattr(smemsim, name, noted(door, functools.partial(lambda name, answer, args: answered(name, answer), name)))
    for owner, names in DOORS.items():
        kind = getattr(smemsim, owner)
        for name in names.split():
            held = inspect.getattr_static(kind, name)
            note = functools.partial(lambda name, answer, args: answered(name, answer), f"{owner}.{name}")
            if isinstance(held, (classmethod, staticmethod)):
                type.__setattr__(kind, name, type(held)(noted(held.__func__, note)))
            else:
                type.__setattr__(kind, name, noted(held, note))
    smemsim.check = noted(smemsim.check, lambda report, args: NOW.lines.extend(["check", *(f"  {fact(f)}" for f in report.findings)]))
    gpu = smemsim.Gpu
    gpu.launch = noted(gpu.launch, lambda run, args: ran(run.launch, args[0].memory, is_judged=True))
    type.__setattr__(smemsim.Run, "findings", property(noted(smemsim.Run.findings.fget, judged)))
    CliRunner.invoke = noted(CliRunner.invoke, lambda result, args: answered("command", (result.exit_code, result.output)))
    core.ptx.read_module = noted(
        core.ptx.read_module,
        lambda module, args: answered("read_module", [*map(bodies, module.functions.values()), repr(module.variables).encode()]),
    )
    import launches

    device = launches.Device
    device.launch = noted(device.launch, lambda launch, args: ran(launch, args[0].memory, is_judged=False))


# ---- what is written down

# Tests whose facts depend on time, on threads or on what is installed.
UNSTEADY = frozenset[str]()


def is_followed(item):
    """Has a test the same facts in every run? By night there are more cases."""
    test = getattr(item, "function", None)
    if test is None or is_night() or item.originalname in UNSTEADY:
        return False
    return not any(item.iter_markers("skipif"))


def sum_of(text):
    return f"{zlib.crc32(text.encode()):08x}"


NOTHING = sum_of("")


def row_of(item, lines):
    """The row of a test: with findings its name and its lines, otherwise two sums."""
    if any(line.startswith("  ") for line in lines):
        return item.name, lines
    return sum_of(item.name), sum_of("\n".join(lines))


@functools.cache
def written(stem):
    """What the tests of a file were told: by their names, and by the sums of these."""
    path = FOLDER / f"{stem}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def compare(item, lines):
    """A test that is not written down yet has nothing to be compared with."""
    rows = written(item.path.stem)
    own = [rows[key] for key in (item.name, sum_of(item.name)) if key in rows]
    if own:
        assert own == [row_of(item, lines)[1]], (
            f"{item.name} is told other facts than in tests/told/{item.path.stem}.json (written by pytest --write-told)"
        )


def write(rows, collected):
    """Add the rows of tests that ran, by file; rows of tests that are no more go."""
    import fcntl  # not on Windows, where nothing is written down

    for stem, own in rows.items():
        path = FOLDER / f"{stem}.json"
        FOLDER.mkdir(exist_ok=True)
        with pathlib.Path(__file__).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            written.cache_clear()
            known = {key for name in collected[stem] for key in (name, sum_of(name))}
            done = {key for name, _ in own for key in (name, sum_of(name))}
            kept = {key: row for key, row in written(stem).items() if key in known and key not in done}
            every = kept | {key: row for _, (key, row) in own if row != NOTHING}
            lines = [f"{json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}" for key, row in sorted(every.items())]
            path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
