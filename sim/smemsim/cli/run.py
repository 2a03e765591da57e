"""`smemsim run`."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import os
import pathlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from smemsim.base.arguments import cta_numbers, in_grid, shown, suggestion
from smemsim.base.errors import InputError, Unmodelled
from smemsim.cli.explain import hint
from smemsim.cli.options import OLD_FOLDER, PLACE, ScheduledCommand, assume_option, global_races_option, json_option
from smemsim.core.picture.message import wants_colour

if TYPE_CHECKING:
    from smemsim.core.ptx.module import Module
    from smemsim.diagnosis.gpu import Gpu
    from smemsim.diagnosis.outputs import Comparison, Output, Wanted
    from smemsim.diagnosis.run import Run
    from smemsim.evidence.launches import LaunchFile

__all__ = ["ARGUMENT_HELP", "parse_arguments", "parse_shape", "run"]


# ---- A launch without a launch file: shapes and arguments as they stand on the command line


FLOATS = ("f16", "bf16", "f32", "f64", "e4m3", "e5m2")
FILLS = {"zeros": "zeros", "empty": "empty", "ones": {"fill": 1}, "iota": {"iota": [0, 1]}, "bits": "bits"}
KINDS = (*FILLS, "random", "integers", "file", "null", "bytes", "scratch", "array")
MOST_DRAWN = 512  # CTAs of a grid whose page has the pipeline unasked: recording it takes one process
RECORDED = "launch.json"  # the description of a recorded launch (smemsim.evidence)
ARGUMENT_HELP = (
    "An argument, in the order of the parameters. A number: u32:5, f32:0.5. An array: zeros:f32:1024, ones:..., iota:..., empty:... (uninitialised), "
    "random:bf16:128x64, integers:s8:128x64:-3:3 (small whole numbers), file:a.npy. array:0 is the array of argument 0 again, scratch:4096 are "
    "zeroed bytes, bytes:HEX is a structure, null is no address."
)


def parse_shape(name: str, text: str) -> list[int]:
    """One to three numbers.

    >>> parse_shape("--grid", "4"), parse_shape("--grid", "4,2"), parse_shape("--grid", "8x8x2")
    ([4], [4, 2], [8, 8, 2])
    """
    try:
        extents = [int(part, 0) for part in text.strip(" ()[]").replace("x", ",").split(",")]
    except ValueError:
        extents = []
    if not extents or len(extents) > 3 or min(extents) < 1:
        raise InputError(f"{name} {shown(text)}: needs one to three numbers from 1 on, as 4,2")
    return extents


def parse_arguments(texts: tuple[str, ...]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(args, arrays) of a launch file from texts such as "u32:5" and "zeros:f32:128x64"; arrays are called arg0, arg1
    ... after their places.

    >>> parse_arguments(("zeros:f32:8", "u32:5"))[0]
    [{'array': 'arg0'}, {'value': 5, 'type': 'u32'}]
    """
    from smemsim.evidence.launches import VALUES
    from smemsim.run.engine.arrays import number_bytes

    args: list[dict[str, Any]] = []
    arrays: list[dict[str, Any]] = []
    for n, text in enumerate(texts):
        kind, _, rest = text.partition(":")
        where = f"--arg {shown(text)}"
        if kind in VALUES:
            value = _number(where, rest, is_float=kind.startswith("f"))
            number_bytes(where, kind, VALUES[kind], value, is_shown=True)
            args.append({"value": value, "type": kind})
        elif kind == "null":
            args.append({"null": True})
        elif kind == "bytes":
            args.append({"bytes": rest})
        elif kind == "scratch":
            args.append({"scratch": _number(where, rest, is_float=False)})
        elif kind == "array":
            if f"arg{rest}" not in [one["name"] for one in arrays]:
                raise InputError(f"{where}: needs the number of an earlier argument that is an array, the first is 0")
            args.append({"array": f"arg{rest}"})
        elif kind in KINDS:
            recipe = {"file": rest} if kind == "file" else _recipe(where, kind, rest, n)
            arrays.append({"name": f"arg{n}", **recipe})
            args.append({"array": f"arg{n}"})
        else:
            hint = f"; a file is file:{kind}" if kind.endswith(".npy") else suggestion(kind, (*KINDS, *VALUES))
            raise InputError(
                f"{where}: no such kind of argument; a number is u32:{kind if kind.isdigit() else 5} (also {', '.join(kind for kind in VALUES if kind != 'u32')}), "
                f"an array is zeros:f32:1024 (also {', '.join(kind for kind in KINDS if kind != 'zeros')}){hint}"
            )
    return args, arrays


def _recipe(where: str, kind: str, rest: str, n: int) -> dict[str, Any]:
    from smemsim.evidence.recipes import WIDTHS

    dtype, _, more = rest.partition(":")
    shape, *limits = more.split(":")
    try:
        extents = [int(x, 0) for x in shape.replace(",", "x").split("x")]
        numbers = [int(x, 0) for x in limits]
    except ValueError:
        raise InputError(f"{where}: needs a shape after the type, as {kind}:{dtype or 'f32'}:128x64") from None
    if dtype not in WIDTHS:
        raise InputError(f"{where}: {shown(dtype)} is not an element type ({' '.join(WIDTHS)}){suggestion(dtype, WIDTHS)}")
    if min(extents) < 0 or len(numbers) != (2 if kind == "integers" else 0):
        raise InputError(f"{where}: needs {kind}:TYPE:SHAPE{':LOWEST:HIGHEST' if kind == 'integers' else ''}")
    what: Any = FILLS.get(kind)
    if kind == "random":
        what = {"normal": [0, 1]} if dtype in FLOATS else "bits"
    elif kind == "integers":
        what = {"integers": numbers}
    return {"dtype": dtype, "shape": extents, "seed": n + 1, "distribution": what}


def _number(where: str, text: str, *, is_float: bool) -> int | float:
    try:
        return float(text) if is_float else int(text, 0)
    except ValueError:
        raise InputError(f"{where}: needs a {'number' if is_float else 'whole number'} after the colon") from None


# ---- the command


COMMAND_LINE = "command line"


@click.command(cls=ScheduledCommand, short_help="Run a kernel's PTX: what does it compute, and what is wrong with it?")
@click.argument("path", type=PLACE, metavar="KERNEL")
@click.option("--launch", "launch_path", type=PLACE, metavar="FILE", help="The launch file, .toml or .json: shapes, arguments, arrays.")
@click.option("--entry", help="The kernel. Needed if the PTX has more than one.")
@click.option("--grid", metavar="X,Y,Z", help="CTAs of the grid.")
@click.option("--block", metavar="X,Y,Z", help="Threads of a CTA. Default: .reqntid of the PTX.")
@click.option("--cluster", metavar="X,Y,Z", help="CTAs of a cluster. Default: .reqnctapercluster of the PTX.")
@click.option("--shared", "shared_bytes", type=int, metavar="BYTES", help="Bytes of dynamic shared memory.")
@click.option("--cooperative", is_flag=True, default=None, help="A cooperative launch. A kernel that calls grid.sync() needs it.")
@click.option("--arch", help="The architecture: sm_90a, sm_100a, sm_120a, ... (exec --list-cards). Default: .target of the PTX.")
@click.option("--arg", "given", multiple=True, metavar="ARG", help=ARGUMENT_HELP)
@click.option(
    "--ctas",
    metavar="0-3",
    help="Run only these CTAs and the others of their clusters. sample: CTAs that represent the grid (corners, edges, interior).",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="Processes for independent CTAs. Default: as many as save time on idle processors.",
)
@click.option("--dask", metavar="ADDRESS", help="Run the CTAs on the Dask cluster at this address (pip install 'smemsim[campaign]').")
@click.option(
    "--cancel",
    metavar="HOW",
    help="The answer of clusterlaunchcontrol.try_cancel: resident, never, one or always. all runs the launch with each.",
)
@click.option(
    "--schedule",
    metavar="SEED",
    help="Run in another order that the memory model allows: a seed, earliest or latest. all:N compares these with N seeds.",
)
@click.option("--random", is_flag=True, help="Fill each array by its key `random` in the launch file, if it has one.")
@click.option("--no-sanitize", is_flag=True, default=None, help="Execute only: nothing is checked.")
@global_races_option
@click.option("--strict", is_flag=True, help="Remarks about documented rules that the kernel breaks count as findings.")
@click.option(
    "--expect",
    multiple=True,
    metavar="ARRAY=FILE.npy",
    help="The expected content of an array: a file, or ARRAY=sha256:DIGEST. ARRAY:bf16=FILE.npy reads the bytes as elements of that type.",
)
@click.option("--rtol", type=float, help="Relative tolerance: |difference| <= atol + rtol * |expected|.")
@click.option(
    "--atol",
    type=float,
    help="Absolute tolerance. Without --rtol and --atol, differences that rounding explains are printed and do not count.",
)
@click.option("--exact", is_flag=True, help="Compare expected arrays bit for bit.")
@click.option("--out", type=PLACE, metavar="FOLDER", help="Write every output to this folder, as .npy.")
@click.option(
    "--report", type=PLACE, metavar="FILE.html", help="Write an HTML page: findings with their PTX, and the tile of every operand."
)
@click.option(
    "--trace", type=PLACE, metavar="FILE.toml", help="Write the transfers and matrix instructions that ran as a scenario for smemsim check."
)
@click.option("--profile", is_flag=True, help="Print the time by PTX line and by part: execution, products, sanitizer, operand check.")
@click.option("--counters", is_flag=True, default=None, help="Count bank conflicts, sectors and bytes of each line, like Nsight Compute.")
@click.option(
    "--pipeline",
    type=PLACE,
    metavar="FILE.svg|.txt|.json",
    help="Write the stages over time, and print the wait that holds the loads back.",
)
@click.option(
    "--cta", type=click.IntRange(0), metavar="N", help="With --pipeline: record the cluster of this CTA. Default: the first that runs."
)
@click.option(
    "--costs",
    type=PLACE,
    metavar="FILE.toml|.json",
    help="With --pipeline: lengths that the picture assumes: load, interval, mma, store, epilogue.",
)
@click.option(
    "--relax-at",
    multiple=True,
    metavar="WAIT",
    help="Like --relax, for one wait: a line of the PTX (582), a source line (gemm.cu:163), or an instruction (mbarrier.try_wait).",
)
@click.option("--relax", is_flag=True, help="Run again with each wait weakened, and report those that were not needed (P102).")
@click.option("--list", "list_forms", is_flag=True, help="List the instructions and whether they are modelled. Runs nothing.")
@click.option("--init", is_flag=True, help="Print a launch file for the kernel, to be filled in. Runs nothing.")
@click.option(
    "--limit", type=click.IntRange(1), metavar="BLOCKS", help="Stop the kernel after this many blocks of instructions. Default: 20 million."
)
@click.option(
    "--limit-seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="S",
    help="Stop the kernel after this many seconds of execution. Reading and linking the PTX may each take as long. Default: no limit.",
)
@click.option(
    "--overrun",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Report accesses of at most this many bytes past an array (X001), and continue with zeros there.",
)
@click.option("--multiprocessors", type=click.IntRange(1), metavar="N", help="SMs of the card. Default: those of the real card.")
@click.option(
    "--memory", metavar="BYTES", help="Memory that the run may take, such as 8G. Default: SMEMSIM_MEMORY, or three quarters of the machine."
)
@click.option(
    "--source", "sources", multiple=True, type=OLD_FOLDER, metavar="FOLDER",
    help="A further folder for files that the PTX (.file) or the launch file names.",
)  # fmt: skip
@assume_option
@json_option
@click.pass_context
def run(ctx: click.Context, /, path: pathlib.Path, list_forms: bool, init: bool, as_json: bool, **o: Any) -> None:
    """Execute a kernel from its PTX. KERNEL is a PTX file, a launch file, or a folder with kernel.ptx and launch.json.

    Each finding names its line of the source and of the PTX. Findings are wrong descriptors and tensor maps, missing
    fences and barriers, early reads, accesses out of bounds, and hangs.

    An expected array is compared within --rtol and --atol, like numpy.allclose. Without them, differences that look
    like rounding are printed and do not count.

    Exit code 0: nothing is wrong. 1: a finding or a difference. 2: the launch cannot be made, its time is over, or a
    CTA waits for one that --ctas left out. 3: an instruction is not modelled. 130: Ctrl-C.

    \b
    smemsim run kernel.ptx --grid 4 --block 128 --arg zeros:f32:1024 --arg u32:1024
    smemsim run kernel.ptx --launch launch.toml --report report.html
    smemsim run kernel.ptx --launch launch.toml --schedule all:32
    smemsim run golden/sm_90a/launches/kernels/gemm_bf16 --expect D=wanted.npy
    smemsim run kernel.ptx --list
    smemsim run kernel.ptx --init > launch.toml
    """
    _limit(ctx, o)
    if list_forms and init:
        raise InputError("--list and --init: needs one of the two")
    if list_forms:
        ctx.exit(_list(path, o, as_json))
    if init:
        ctx.exit(_init(path, o))
    done, arrays = _run(path, o)
    if arrays.launch.about["block"] is None and done.launch.block == (1, 1, 1) and done.launch.kernel.block is None and "%tid" in done.ptx:
        click.echo("smemsim: each CTA has 1 thread: --block is not given, and the PTX has no .reqntid", err=True)
    outputs = arrays.outputs()
    compared = arrays.compared(done, outputs)
    explanations = arrays.explanations(done, outputs, compared)
    # a narrower type in between is no rounding
    differs = {name: x.text or explanations.get(name, "") for name, x in compared.items()}
    try:
        _write(done, arrays.launch, outputs, _told(outputs, compared, explanations), o)
    finally:  # a full disk takes no finding away
        _tell(done, outputs, compared, explanations, differs if as_json else None, strict=o["strict"])
    is_wrong = not (done.is_strictly_ok if o["strict"] else done.ok) or any(differs.values())
    ctx.exit(130 if done.interrupted else 1 if is_wrong else 2 if done.out_of_time or done.held_up else 0)


def _init(path: pathlib.Path, o: dict[str, Any]) -> int:
    """Print a launch file for a kernel."""
    from smemsim.evidence.launches import read_text, sketch
    from smemsim.run.engine.device import entry_of
    from smemsim.run.lower.program import module_of

    module = module_of(read_text(path), str(path))
    click.echo(sketch(module, entry_of(module, o["entry"])), nl=False)
    return 0


def _run(path: pathlib.Path, o: dict[str, Any]) -> tuple[Run, _Arrays]:
    """The run of the kernel, and its arrays. InputError, before a run that may be long, for what does not fit."""
    from smemsim.base import budget
    from smemsim.diagnosis.gpu import Gpu
    from smemsim.run.lower.program import module_of

    launch, name = _launch(path, o)
    module = module_of(launch.ptx, name)
    gpu = Gpu(_arch(launch, module, name))
    _check_ctas(launch, o)
    _check_code(module, o["entry"] or launch.about["entry"], gpu.arch, name)
    _check_arguments(launch, module, o, name)
    budget.ask("the arrays, and copies of them to see what the kernel changes", 3 * launch.array_bytes)
    placed, args = launch.placed(gpu, random=o["random"])
    arrays = _Arrays(launch, placed, o)
    _check_files(name, launch, arrays.expected, {n: arrays.output(n) for n in arrays.expected}, o)
    arrays.keep()
    counting = [placed[n].address for n in (*launch.about["outputs"], *arrays.expected)] if arrays.expected else None
    done = _executed(gpu, module, launch, args, name, {**o, "outputs": counting})
    gpu.memory.taint.restore([])  # no launch comes after it
    return done, arrays


def _check_ctas(launch: LaunchFile, o: dict[str, Any]) -> None:
    """InputError if --ctas or --cta has the number of a CTA that the grid has not."""
    count = math.prod(launch.about["grid"])
    numbers = [n for n in cta_numbers("--ctas", o["ctas"]) if not isinstance(n, str)] if o["ctas"] else []
    for option, number in (("--ctas", max(numbers, default=None)), ("--cta", o["cta"])):
        if number is not None:
            in_grid(option, number, count)


def _check_code(module: Module, entry: str | None, arch: str, name: str) -> None:
    """The exceptions of a kernel that cannot be linked, with the name of the PTX file in each line."""
    from smemsim.run.engine.device import entry_of
    from smemsim.run.lower.program import linked

    kernel = entry_of(module, entry or None)
    try:
        linked(module, kernel, arch)
    except (InputError, Unmodelled) as e:
        kind = Unmodelled if isinstance(e, Unmodelled) else InputError  # some InputErrors have more than a message
        raise kind("\n".join(f"{name}: {sentence}" for sentence in str(e).splitlines())) from None


def _check_arguments(launch: LaunchFile, module: Module, o: dict[str, Any], name: str) -> None:
    """InputError where the arguments are not those of the kernel: how many, in a launch file with the lines to write,
    and of which types.
    """
    from smemsim.evidence.launches import example_args
    from smemsim.run.engine.arrays import miscounted
    from smemsim.run.engine.device import entry_of

    function = module.functions[entry_of(module, launch.about["entry"] or None)]
    parameters = function.parameters
    if launch.path != COMMAND_LINE and not o["given"]:
        launch.check_count(function)
    elif told := miscounted(parameters, len(launch.about["args"])):
        given = len(launch.about["args"])
        is_part = 0 < given < len(parameters)
        how = "add the others" if is_part else "give each one its --arg"
        example = example_args(function, given if is_part else 0)
        raise InputError(f"{told}; {how}, for example {example}, or fill in a launch file: smemsim run {name} --init > launch.toml")
    launch.check_types(parameters, are_options=launch.path == COMMAND_LINE or bool(o["given"]))


def _launch(path: pathlib.Path, o: dict[str, Any]) -> tuple[LaunchFile, str]:
    """The launch with what the options change, and the name of the PTX."""
    from smemsim.core.tables import Source
    from smemsim.evidence.launches import KERNEL, LaunchFile, checked, read_launch_file, read_text

    if os.path.isdir(path) or path.suffix in (".toml", ".json"):
        if o["launch_path"] is not None:
            raise InputError(f"{path} and --launch {o['launch_path']}: two launch files")
        launch = read_launch_file(path, allowed=o["sources"])
        name = str(launch.folder / launch.about.get("ptx", KERNEL))
    elif o["launch_path"] is not None:
        launch, name = read_launch_file(o["launch_path"], path, allowed=o["sources"]), str(path)
    else:
        launch, name = LaunchFile(path.stem, read_text(path), checked({}, Source(str(path))), path=COMMAND_LINE), str(path)
    changed: dict[str, Any] = {key: parse_shape(f"--{key}", o[key]) for key in ("grid", "block", "cluster") if o[key]}
    changed |= _given(o, "entry", "arch", "shared_bytes", "cancel", "cooperative")
    if o["given"]:
        if launch.about["args"]:
            raise InputError("--arg: the launch file has arguments already")
        changed["args"], changed["arrays"] = parse_arguments(o["given"])
    if not changed:
        return launch, name
    return dataclasses.replace(launch, about=checked({**launch.about, **changed}, Source(COMMAND_LINE))), name


def _executed(gpu: Gpu, module: Module, launch: LaunchFile, args: list[Any], name: str, o: dict[str, Any]) -> Run:
    """The launch, run as the options and the launch file say."""
    from smemsim.evidence.launches import OPTION_KEYS
    from smemsim.run.engine.launch import RunOptions
    from smemsim.run.engine.profile import Sampler

    if o["profile"]:
        if o["dask"] or (o["workers"] or 1) > 1:
            raise InputError("--profile: a profile is of one process; leave --workers and --dask out")
        o = {**o, "workers": 1}
    if o["counters"] and (o["dask"] or (o["workers"] or 1) > 1):
        raise InputError("--counters: counters are of one process; leave --workers and --dask out")
    if o["pipeline"] is not None and (o["dask"] or (o["workers"] or 1) > 1):
        raise InputError("--pipeline: a pipeline is recorded in one process; leave --workers and --dask out")
    with contextlib.ExitStack() as stack:
        client = None
        if o["dask"]:
            from smemsim.base.processes import close_client, dask_client  # takes long to import

            client = dask_client(o["dask"])
            stack.callback(close_client, client)
        said = _given(
            {**o, "ctas": cta_numbers("--ctas", o["ctas"]) if o["ctas"] else None, "sanitize": False if o["no_sanitize"] else None},
            *OPTION_KEYS,
        )
        options = {
            "workers": o["workers"],
            "client": client,
            "name": name,
            "sources": _folders(launch, name, o),
            "pipeline": _recording(launch, o),
            "outputs": o["outputs"],
            **launch.options,
            **said,
        }
        if launch.options.get("counters"):
            options["counters"] = launch.options["counters"]  # its bounds; --counters has none
        sampler = stack.enter_context(Sampler()) if o["profile"] else None
        runs = functools.partial(gpu.run_relaxed, at=o["relax_at"]) if o["relax"] or o["relax_at"] else gpu.run_and_compare
        done = runs(module, launch.config(args), RunOptions(**options))
        if sampler is not None:
            _ = done.findings  # the profile includes the operand check
            stack.close()
            done.profile = sampler.profile
    if done.schedules is not None and launch.about["outputs"]:
        done.schedules = done.schedules.only(launch.about["outputs"])
    return done


def _recording(launch: LaunchFile, o: dict[str, Any]) -> Any:
    """What --pipeline, --cta and --costs ask for; a page of --report has the pipeline, too."""
    from smemsim.run.pipeline.knowledge import Recording

    if o["pipeline"] is None:
        for name in ("cta", "costs"):
            if o[name] is not None:
                raise InputError(f"--{name}: is for --pipeline; give both")
        is_small = math.prod(launch.about["grid"]) <= MOST_DRAWN and not o["dask"] and (o["workers"] or 1) == 1
        return Recording(only_page=True) if o["report"] is not None and is_small else False
    return {"cta": o["cta"], "costs": {} if o["costs"] is None else _costs(o["costs"])}


def _costs(path: pathlib.Path) -> Any:
    """A file of assumed lengths, as TOML or JSON."""
    from smemsim.core.tables import parse_toml
    from smemsim.evidence.launches import read_text

    try:
        return json.loads(read_text(path)) if path.suffix == ".json" else parse_toml(read_text(path))
    except (OSError, ValueError) as e:
        raise InputError(f"--costs {path}: {str(e).removeprefix(f'{path}: ')}") from None


def _folders(launch: LaunchFile, name: str, o: dict[str, Any]) -> list[pathlib.Path]:
    """The folders that may have sources besides the current folder: those of the PTX and the launch file, and those of
    --source.
    """
    from smemsim.base.files import source_folders

    return list(source_folders([pathlib.Path(name).parent, launch.folder], o["sources"]))


def _given(o: dict[str, Any], *names: str) -> dict[str, Any]:
    """The options of these names that were given."""
    return {name: o[name] for name in names if o[name] is not None}


def _arch(launch: LaunchFile, module: Module, name: str) -> str:
    from smemsim.core.spec.targets import target_number
    from smemsim.evidence.launched import arch_of

    arch = arch_of(launch, module, name)
    if not launch.about["arch"] and target_number(module.own_target) != target_number(arch):
        click.echo(f"smemsim: .target {module.own_target}: run as on {arch} (--arch chooses another)", err=True)
    return arch


def _expected(texts: tuple[str, ...], arrays: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """(what is expected of each array, the element types that were asked for)."""
    from smemsim.core.spec.formats import FORMATS
    from smemsim.evidence.launches import IS_DIGEST

    expected, types = {}, {}
    for text in texts:
        name, equals, wanted = text.partition("=")
        plain, _, kind = name.rpartition(":")
        if name not in arrays and plain in arrays:
            if kind not in FORMATS or FORMATS[kind].bits < 8:
                raise InputError(f"--expect {shown(text)}: {shown(kind)} is no element type of whole bytes{suggestion(kind, FORMATS)}")
            name, types[plain] = plain, kind
        if equals and name not in arrays:
            raise InputError(
                f"--expect {shown(text)}: there is no array {shown(name)}; arrays are {', '.join(arrays)}{suggestion(name, arrays)}"
            )
        if not equals:
            raise InputError(
                f"--expect {shown(text)}: needs ARRAY=FILE.npy or ARRAY=sha256:DIGEST; arrays are {', '.join(arrays)}{suggestion(name, arrays)}"
            )
        if name in expected:
            raise InputError(f"--expect {shown(text)}: an expected value of {name} was given already")
        expected[name] = wanted if wanted.startswith("sha256:") else str(pathlib.Path(wanted).absolute())
        if not IS_DIGEST.fullmatch(wanted) and (wanted.startswith("sha256:") or not wanted.endswith(".npy")):
            raise InputError(f"--expect {shown(text)}: needs the name of an .npy file, or sha256: and 64 hexadecimal digits")
    return expected, types


def _limit(ctx: click.Context, o: dict[str, Any]) -> None:
    """Memory, and the time for reading and for linking, as the options say."""
    from smemsim.base import budget
    from smemsim.base.time_limit import limited

    ctx.with_resource(limited(o["limit_seconds"]))
    if o["memory"]:
        budget.set_limit(budget.amount(o["memory"], "--memory"))


def _wanted(launch: LaunchFile, o: dict[str, Any]) -> Wanted:
    """How outputs are compared with what was expected: as the options say, else as the launch file does."""
    from smemsim.diagnosis.numbers import Tolerance
    from smemsim.diagnosis.outputs import Wanted

    given = {key: o[key] for key in ("rtol", "atol") if o[key] is not None}
    if given and o["exact"]:
        raise InputError(f"--exact and --{' and --'.join(given)}: needs one of the two")
    if given:
        return Wanted(Tolerance(**given))
    if o["exact"] or launch.about.get("exact", False):
        return Wanted(exact=True)
    return Wanted(launch.tolerance)


def _check_files(kernel: str, launch: LaunchFile, expected: dict[str, str], outputs: dict[str, Output], o: dict[str, Any]) -> None:
    """InputError, before a run that may be long, for files that cannot be read, written or compared after it."""
    from smemsim.base.files import check_place
    from smemsim.diagnosis.outputs import Wanted

    for name, wanted in expected.items():
        if wanted.endswith(".npy"):
            outputs[name].compared(wanted, launch.folder, Wanted(exact=True))
    written = {option: o[option] for option in ("report", "trace", "pipeline") if o[option] is not None}
    for option, path in written.items():
        check_place(f"--{option}", path)
    _check_overwritten(launch, written, _files_read(kernel, launch, expected, o["costs"]), o["out"])
    if o["pipeline"] is not None and o["pipeline"].suffix not in PIPELINE_FILES:
        raise InputError(f"--pipeline {o['pipeline']}: needs a file that ends in {', '.join(PIPELINE_FILES)}")
    if o["trace"] is not None and o["no_sanitize"]:
        raise InputError("--trace and --no-sanitize: a trace is kept only with the sanitizer")


def _files_read(kernel: str, launch: LaunchFile, expected: dict[str, str], costs: pathlib.Path | None) -> dict[str, pathlib.Path]:
    """The files that a run reads, by what they are."""
    read = {"the kernel": pathlib.Path(kernel), **launch.files}
    if launch.path != COMMAND_LINE:
        read["the launch"] = pathlib.Path(launch.path)
    if costs is not None:
        read["--costs"] = costs
    return read | {f"expected: {name}": launch.folder / wanted for name, wanted in expected.items() if wanted.endswith(".npy")}


def _check_overwritten(
    launch: LaunchFile, written: dict[str, pathlib.Path], read: dict[str, pathlib.Path], out: pathlib.Path | None
) -> None:
    """InputError if a file would be written that is also read, or written twice."""
    from smemsim.base.files import check_folder, same_file
    from smemsim.diagnosis.outputs import out_names

    others = [*((f"--{option}", path) for option, path in written.items()), *read.items()]
    for n, (option, path) in enumerate(written.items(), 1):
        for key, other in others[n:]:
            if same_file(path, other):
                raise InputError(f"--{option} {path}: is the file of {key} too; needs a file of its own")
    if out is None:
        return
    check_folder("--out", out)
    arrays = [out / name for name in out_names(one["name"] for one in launch.about["arrays"]).values()]
    for option, path in written.items():
        if any(same_file(path, array) for array in arrays):
            raise InputError(f"--{option} {path}: is a file that --out may write too")
    for key, path in read.items():
        if any(same_file(path, array) for array in arrays):
            raise InputError(f"--out {out}: would overwrite {path} ({key}), which this run reads; needs another folder")


class _Arrays:
    """The arrays of a launch by their names, as they are and as they were `before` it. The file or the digest that each
    is compared with is `expected`. The element types that were asked for are `types`.
    """

    def __init__(self, launch: LaunchFile, arrays: dict[str, Any], o: dict[str, Any]) -> None:
        asked, self.types = _expected(o["expect"], list(arrays))
        self.launch, self.arrays, self.expected, self.how = launch, arrays, _files_and_digests(launch) | asked, _wanted(launch, o)
        self.before: dict[str, Any] = {}

    def keep(self) -> None:
        """Keep copies of all arrays, to see what the kernel changes."""
        from smemsim.base import budget

        budget.ask("copies of all arrays, to see what the kernel changes", 2 * sum(a.nbytes for a in self.arrays.values()))
        self.before = {n: a.numpy() for n, a in self.arrays.items()}

    def output(self, name: str, array: Any = None) -> Output:
        """An array as it is, or with other contents."""
        contents = self.arrays[name].numpy() if array is None else array
        return _output(self.launch, name, contents, self.types.get(name, ""), self.expected.get(name, ""))

    def outputs(self) -> list[Output]:
        """The outputs, which are all changed arrays if the launch file names none, and the other compared arrays."""
        names = list(self.launch.about["outputs"]) or [n for n, a in self.arrays.items() if a.numpy().tobytes() != self.before[n].tobytes()]
        return [self.output(n) for n in dict.fromkeys([*names, *self.expected])]

    def compared(self, done: Run, outputs: list[Output]) -> dict[str, Comparison]:
        """The comparison of each output with what was expected; none for a launch of which a part was run."""
        if not self.expected:
            return {}
        if done.ctas < done.launch.ctas:
            click.echo(f"smemsim: outputs are not compared: {done.ctas} of {done.launch.ctas} CTAs came to their end", err=True)
            return {}
        return {
            x.name: x.compared(self.expected[x.name], self.launch.folder, dataclasses.replace(self.how, rounding=done.rounding(x.type)))
            for x in outputs
            if x.name in self.expected
        }

    def explanations(self, done: Run, outputs: list[Output], compared: dict[str, Comparison]) -> dict[str, str]:
        """The rules that explain differences from expected files; "" if there is none."""
        from smemsim.diagnosis.numbers import EXACT
        from smemsim.diagnosis.outputs import expected_array

        found = {}
        for x in outputs:
            one = compared.get(x.name)
            if one is None or not one.differing or not (one.difference or self.how.tolerance is None):
                continue
            wanted, array = self.expected[x.name], self.arrays[x.name]
            found[x.name] = done.explain_output(
                x, expected_array(self.launch.folder / wanted, x.array), self.output(x.name, self.before[x.name]).array,
                address=array.address if array.is_contiguous else None, tolerance=self.how.tolerance or EXACT,
            ) if wanted.endswith(".npy") else ""  # fmt: skip
        return found


def _output(launch: LaunchFile, name: str, array: Any, asked: str, expected: str) -> Output:
    """An array after the launch, in the shape of the expected array, as elements of the type in `asked`.

    A record has only bytes if it does not know the type. The expected array gives the type then, if it has as many
    bytes.
    """
    import numpy as np

    from smemsim.base.array_files import read_array
    from smemsim.diagnosis.outputs import Output
    from smemsim.run.engine.arrays import storage

    dtype = launch.dtype(name)
    if asked:
        kind, dtype = storage(asked), asked
        if array.nbytes % kind.itemsize:
            raise InputError(f"--expect {name}:{asked}: {name} has {array.nbytes} bytes, no multiple of {kind.itemsize}")
        array = np.ascontiguousarray(array).reshape(-1).view(f"u{kind.itemsize}" if kind.kind == "V" else kind)
    recorded = "address" in next(one for one in launch.about["arrays"] if one["name"] == name)
    if expected.endswith(".npy") and (asked or recorded):
        wanted = read_array(launch.folder / expected)
        if not dtype and array.dtype == np.uint8 and array.nbytes == wanted.nbytes and wanted.dtype.kind in "iuf":
            array = np.ascontiguousarray(array).reshape(-1).view(wanted.dtype)
        if array.size == wanted.size:
            array = array.reshape(wanted.shape)
    return Output(name, array, dtype)


def _files_and_digests(launch: LaunchFile) -> dict[str, str]:
    """The expected outputs of a launch file. A recorded launch may have an expression, which no command evaluates: such
    an output is not compared, and a line reports it.
    """
    expected = dict(launch.about.get("expected", {}))
    for name, wanted in launch.about.get("expected", {}).items():
        if not wanted.endswith(".npy") and not wanted.startswith("sha256:"):
            if pathlib.PurePath(launch.called).name != RECORDED:
                raise InputError(f"{launch.called}: expected.{name} = {shown(wanted)}: needs the name of an .npy file, or sha256:DIGEST")
            click.echo(
                f"smemsim: {name} is not compared: expected.{name} is an expression ({shown(wanted)}), which `run` does not evaluate",
                err=True,
            )
            del expected[name]
    return expected


def _as_dict(output: Output, comparison: Comparison | None, difference: str | None, explanation: str) -> dict[str, Any]:
    more = comparison.as_dict() if comparison is not None and comparison.errors else {}
    return {**output.as_dict(), "difference": difference, "explanation": explanation, **more}


def _told(outputs: list[Output], compared: dict[str, Comparison], explanations: dict[str, str]) -> list[tuple[str, bool]]:
    """The lines about outputs and differences, and whether each is as it should be."""
    lines = []
    for output in outputs:
        verdict = compared[output.name].verdict if output.name in compared and not explanations.get(output.name) else ""
        lines.append((f"{output.text()} ({verdict})" if verdict else output.text(), True))
    for name, comparison in compared.items():
        if comparison.text or explanations.get(name):
            lines.append((f"different: {comparison.text or f'{name}: {comparison.largest}'}", False))
        if explanations.get(name):
            lines.append((f"      {name}: {explanations[name]}", False))
    return lines


PIPELINE_FILES = (".svg", ".txt", ".json")


def _pipeline(done: Run, suffix: str) -> str:
    """The pipeline as the text of a file."""
    if suffix == ".svg":
        return done.pipeline.svg()
    return done.pipeline.text() + "\n" if suffix == ".txt" else json.dumps(done.pipeline.as_dict(), indent=1) + "\n"


def _write(done: Run, launch: LaunchFile, outputs: list[Output], told: list[tuple[str, bool]], o: dict[str, Any]) -> None:
    import numpy as np

    from smemsim.base.files import write_whole, wrote
    from smemsim.diagnosis.outputs import out_names

    if o["out"] is not None:
        o["out"].mkdir(parents=True, exist_ok=True)
        names = out_names(one["name"] for one in launch.about["arrays"])
        for output in outputs:
            write_whole(o["out"] / names[output.name], functools.partial(np.save, arr=output.array))
        click.echo(f"smemsim: wrote {o['out']} ({len(outputs)} output{'s' * (len(outputs) != 1)} as .npy)", err=True)
    contents: dict[str, tuple[str, Callable[[], str]]] = {
        "pipeline": ("the stages over time", lambda: _pipeline(done, o["pipeline"].suffix)),
        "report": ("findings, pictures, and what was checked", lambda: done.html(told)),
        "trace": ("a scenario for smemsim check and show", lambda: done.scenario().toml()),
    }
    for option, (what, content) in contents.items():
        if o[option] is not None:
            write_whole(o[option], content())
            click.echo(f"smemsim: {wrote(o[option], what)}", err=True)


def _tell(
    done: Run,
    outputs: list[Output],
    compared: dict[str, Comparison],
    explanations: dict[str, str],
    differs: dict[str, str] | None,
    *,
    strict: bool,
) -> None:
    """Print what came of the run; as JSON where it is given what differs."""
    if differs is not None:
        told = [_as_dict(x, compared.get(x.name), differs.get(x.name), explanations.get(x.name, "")) for x in outputs]
        click.echo(json.dumps({**done.as_dict(), "outputs": told}, indent=1))
        return
    if done.output:
        click.echo(done.output, nl=not done.output.endswith("\n"))
    for line, _ in _told(outputs, compared, explanations):
        click.echo(line)
    click.echo(done.text(strict=strict, colour=wants_colour(sys.stdout)))
    hint(f.code for f in done.findings)


def _list(path: pathlib.Path, o: dict[str, Any], as_json: bool) -> int:
    """Every form of instruction with its count and whether it is modelled; 3 where one is not."""
    from smemsim.core.ptx.module import instruction_forms
    from smemsim.run.lower.program import linked, module_of

    launch, name = _launch(path, o)
    module = module_of(launch.ptx, name)
    arch = _arch(launch, module, name)
    missing: dict[int, str] = {}
    for entry in module.entries:
        try:
            linked(module, entry.name, arch)
        except Unmodelled as e:
            missing |= dict(e.each)
    forms = instruction_forms(module)
    if as_json:
        entries = {
            form: {"count": len(lines), "lines": lines, "unmodelled": [n for n in lines if n in missing]} for form, lines in forms.items()
        }
        click.echo(
            json.dumps({"arch": arch, "forms": entries, "unmodelled": {str(n): why for n, why in sorted(missing.items())}}, indent=1)
        )
        return 3 if missing else 0
    for form, lines in forms.items():
        marked = "  not modelled" if any(n in missing for n in lines) else ""
        click.echo(f"{len(lines):6}  {form}{marked}")
    for number, why in sorted(missing.items()):
        click.echo(f"{name}:{number}: not modelled: {why}")
    count = sum(len(lines) for lines in forms.values())
    click.echo(f"{name}: {count} instructions of {len(forms)} forms; {len(missing) or 'none'} not modelled on {arch}")
    return 3 if missing else 0
